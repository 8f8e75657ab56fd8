package twoclusters

import (
	"context"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
	"github.com/longshore-dev/longshore/host/internal/testkit/childprocess"
)

// Main is the TestMain of a package that runs virtual kubelets: their processes run the
// package's own binary.
func Main(m *testing.M) { childprocess.Main(m, runKubelet) }

// KubeletOptions are the options of a virtual kubelet.
type KubeletOptions struct {
	// ConsumerURL and ProviderURL are proxies in front of the API servers; empty is none.
	ConsumerURL, ProviderURL string
	// ClientTimeout is --client-timeout.
	ClientTimeout time.Duration
	// WithoutNode is --create-node=false.
	WithoutNode bool
	// WithStorage is --enable-storage.
	WithStorage bool
	// ReflectionWorkers replaces the numbers of workers of these resources.
	ReflectionWorkers map[string]int
}

// childOptions are the options of a virtual kubelet in a child process.
type childOptions struct {
	Kubeconfig, NodeIP, PolicyCache string
	ClientTimeout                   time.Duration
	WithoutNode, WithStorage        bool
	ReflectionWorkers               map[string]int
}

// Kubelet is a virtual kubelet in a process of its own.
type Kubelet struct {
	clusters *Clusters
	options  childOptions
	process  *childprocess.Process
}

// StartKubelet creates the VirtualNode and starts its virtual kubelet, which is killed when the
// test ends. If the test has failed, the end of the log is printed.
func (c *Clusters) StartKubelet(options KubeletOptions) *Kubelet {
	c.tb.Helper()
	file := c.kubeconfigs(options.ConsumerURL, options.ProviderURL)
	vn := virtualNode()
	vn.Spec.CreateNode = ptr.To(!options.WithoutNode)
	chartrights.GrantVirtualKubelet(c.tb, c.Rome, vn)
	c.Create(c.Rome, vn)
	k := &Kubelet{clusters: c, options: childOptions{
		Kubeconfig: file, NodeIP: c.Consumer.Address(), PolicyCache: c.policyCache,
		ClientTimeout: options.ClientTimeout, WithoutNode: options.WithoutNode, WithStorage: options.WithStorage, ReflectionWorkers: options.ReflectionWorkers,
	}}
	k.process = childprocess.Start(c.tb, k.options)
	return k
}

// SetReflectionWorkers replaces the numbers of workers of the next start.
func (k *Kubelet) SetReflectionWorkers(workers map[string]int) { k.options.ReflectionWorkers = workers }

// Start starts the process again, which must have been killed.
func (k *Kubelet) Start() {
	k.clusters.tb.Helper()
	k.process.Restart(k.clusters.tb, k.options)
}

// Kill kills the process unless that was done, and waits until it has ended. It fails the test if
// the process ended by itself.
func (k *Kubelet) Kill() {
	k.clusters.tb.Helper()
	k.process.Kill(k.clusters.tb)
}

// runKubelet runs a virtual kubelet in a child process.
func runKubelet(ctx context.Context, child childOptions) error {
	o := kubelet.DefaultOptions()
	var err error
	if o.Config, err = clientcmd.BuildConfigFromFlags("", child.Kubeconfig); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	o.Config = chartrights.ImpersonateAndLog(o.Config, Tenant, NodeName, os.Stderr)
	o.Identity, o.PolicyCacheDir = "replica-1", child.PolicyCache
	o.ForeignKubeconfigSecretName, o.NodeName, o.NodeIP = secretName, NodeName, child.NodeIP
	o.TenantNamespace, o.Namespace, o.HomeClusterID, o.ForeignClusterID = Tenant, "longshore", home, provider
	o.CertificateType, o.ClientTimeout = string(kubelet.CertificateSelfSigned), child.ClientTimeout
	o.CreateNode, o.NodeCheckNetwork, o.EnableStorage = !child.WithoutNode, false, child.WithStorage
	o.NodePingInterval = time.Second
	maps.Copy(o.ReflectionWorkers, child.ReflectionWorkers)
	app, err := kubelet.New(ctx, o)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}
