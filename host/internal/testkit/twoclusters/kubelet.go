package twoclusters

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
)

// childVariable is set for a child process that runs a virtual kubelet. Its value is a file with
// childOptions.
const childVariable = "LONGSHORE_TEST_VIRTUAL_KUBELET"

// logTail is how many bytes of a virtual kubelet's log are printed if the test has failed.
const logTail = 20000

// Main is the TestMain of a package that runs virtual kubelets: their processes run the
// package's own binary.
func Main(m *testing.M) {
	if file := os.Getenv(childVariable); file != "" {
		os.Exit(runChild(file))
	}
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// KubeletOptions are the options of a virtual kubelet.
type KubeletOptions struct {
	// ConsumerURL and ProviderURL are proxies in front of the API servers; empty is none.
	ConsumerURL, ProviderURL string
	// ClientTimeout is --client-timeout.
	ClientTimeout time.Duration
	// WithoutNode is --create-node=false.
	WithoutNode bool
	// ReflectionWorkers replaces the numbers of workers of these resources.
	ReflectionWorkers map[string]int
}

// childOptions are the options of a virtual kubelet in a child process.
type childOptions struct {
	Kubeconfig, NodeIP, PolicyCache string
	ClientTimeout                   time.Duration
	WithoutNode                     bool
	ReflectionWorkers               map[string]int
}

// Kubelet is a virtual kubelet in a process of its own.
type Kubelet struct {
	clusters *Clusters
	options  childOptions
	command  *exec.Cmd
	stdin    io.Closer
	exited   chan error
	logFile  string
	killed   bool
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
	k := &Kubelet{
		clusters: c, logFile: filepath.Join(c.tb.TempDir(), "log"),
		options: childOptions{
			Kubeconfig: file, NodeIP: c.Consumer.Address(), PolicyCache: c.policyCache,
			ClientTimeout: options.ClientTimeout, WithoutNode: options.WithoutNode, ReflectionWorkers: options.ReflectionWorkers,
		},
	}
	k.Start()
	c.tb.Cleanup(func() {
		k.Kill()
		content, err := os.ReadFile(k.logFile)
		assert.NoError(c.tb, err)
		chartrights.AssertNoneDenied(c.tb, content)
		if c.tb.Failed() {
			c.tb.Logf("the virtual kubelet's log:\n%s", content[max(0, len(content)-logTail):])
		}
	})
	return k
}

// SetReflectionWorkers replaces the numbers of workers of the next start.
func (k *Kubelet) SetReflectionWorkers(workers map[string]int) { k.options.ReflectionWorkers = workers }

// Start starts the process again, which must have been killed.
func (k *Kubelet) Start() {
	tb := k.clusters.tb
	tb.Helper()
	raw, err := json.Marshal(k.options)
	require.NoError(tb, err)
	file := filepath.Join(tb.TempDir(), "options.json")
	require.NoError(tb, os.WriteFile(file, raw, 0o600))
	log, err := os.OpenFile(k.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(tb, err)
	defer log.Close()
	binary, err := os.Executable()
	require.NoError(tb, err)
	k.command = exec.Command(binary)
	k.command.Env = append(os.Environ(), childVariable+"="+file)
	k.command.Stdout, k.command.Stderr = log, log
	k.stdin, err = k.command.StdinPipe()
	require.NoError(tb, err)
	require.NoError(tb, k.command.Start())
	k.exited, k.killed = make(chan error, 1), false
	go func(command *exec.Cmd, exited chan error) { exited <- command.Wait() }(k.command, k.exited)
}

// Kill kills the process unless that was done, and waits until it has ended. It fails the test if
// the process ended by itself.
func (k *Kubelet) Kill() {
	tb := k.clusters.tb
	tb.Helper()
	if k.killed {
		return
	}
	k.killed = true
	_ = k.command.Process.Kill() // fails if the process has ended, which the next line reports
	require.ErrorContains(tb, <-k.exited, "signal: killed", "the process did not end before")
	_ = k.stdin.Close()
}

// runChild runs a virtual kubelet until it is killed or its parent ends.
func runChild(file string) (code int) {
	log := funcr.NewJSON(func(line string) { _, _ = os.Stderr.WriteString(line + "\n") }, funcr.Options{LogTimestamp: true, Verbosity: 1})
	ctrl.SetLogger(log)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		cancel()
	}()
	if err := serveChild(ctrl.LoggerInto(ctx, log), file); err != nil {
		log.Error(err, "The virtual kubelet ended")
		return 1
	}
	return 0
}

func serveChild(ctx context.Context, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the options: %w", err)
	}
	var child childOptions
	if err := json.Unmarshal(raw, &child); err != nil {
		return fmt.Errorf("decoding the options: %w", err)
	}
	o := kubelet.DefaultOptions()
	if o.Config, err = clientcmd.BuildConfigFromFlags("", child.Kubeconfig); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	o.Config = chartrights.ImpersonateAndLog(o.Config, Tenant, NodeName, os.Stderr)
	o.Identity, o.PolicyCacheDir = "replica-1", child.PolicyCache
	o.ForeignKubeconfigSecretName, o.NodeName, o.NodeIP = secretName, NodeName, child.NodeIP
	o.TenantNamespace, o.Namespace, o.HomeClusterID, o.ForeignClusterID = Tenant, "longshore", home, provider
	o.CertificateType, o.ClientTimeout = string(kubelet.CertificateSelfSigned), child.ClientTimeout
	o.CreateNode, o.NodeCheckNetwork = !child.WithoutNode, false
	o.NodePingInterval = time.Second
	maps.Copy(o.ReflectionWorkers, child.ReflectionWorkers)
	app, err := kubelet.New(ctx, o)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}
