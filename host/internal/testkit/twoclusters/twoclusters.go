// Package twoclusters starts a consumer and a provider with what a virtual kubelet needs, for
// tests against real control planes. The virtual kubelet runs in a process of its own, so that
// tests can kill it.
package twoclusters

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/internal/testkit"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
)

const (
	// Tenant is the tenant namespace in the consumer.
	Tenant = "liqo-tenant-milan"
	// NodeName is the name of the virtual node and of its VirtualNode.
	NodeName = "milan-1"

	secretName = "kubeconfig-resourceslice-milan-1"
	// remoteUser is the user of the virtual kubelet in the provider, home its group.
	remoteUser = "milan-1-0123456789ab"
	home       = "rome"
	provider   = "milan"
)

// Clusters are a consumer, rome, and a provider, milan. The virtual node is called NodeName.
type Clusters struct {
	// Consumer and Provider are the control planes.
	Consumer, Provider *testplane.Cluster
	// Rome and Milan are clients of their administrators.
	Rome, Milan client.WithWatch

	tb          testing.TB
	policyCache string
}

// Start starts both clusters, which run until the test ends. Each namespace of the consumer is
// offloaded to the namespace of the provider that [Remote] returns.
func Start(tb testing.TB, namespaces ...string) *Clusters {
	tb.Helper()
	started := planetest.ForTests(tb, home, provider)
	c := &Clusters{Consumer: started[0], Provider: started[1], tb: tb, policyCache: testkit.PolicyCache(tb)}
	c.Rome, c.Milan = c.connect(c.Consumer), c.connect(c.Provider)
	for _, cluster := range started {
		chartrights.Install(tb, cluster.RESTConfig())
	}
	c.Create(c.Rome, namespace(Tenant))
	c.createNamespaces(namespaces)
	c.mapNamespaces(namespaces)
	return c
}

// Remote returns the name of an offloaded namespace in the provider.
func Remote(namespace string) string { return namespace + "-" + home }

func (c *Clusters) connect(cluster *testplane.Cluster) client.WithWatch {
	c.tb.Helper()
	types, err := scheme.New()
	require.NoError(c.tb, err)
	config := rest.CopyConfig(cluster.RESTConfig())
	config.QPS = -1
	w, err := client.NewWithWatch(config, client.Options{Scheme: types})
	require.NoError(c.tb, err)
	return w
}

// Create creates objects; bindings are in effect, and pods can be created in namespaces.
func (c *Clusters) Create(in client.Client, objects ...client.Object) {
	c.tb.Helper()
	for _, object := range objects {
		require.NoError(c.tb, in.Create(c.tb.Context(), object), object.GetName())
	}
	planetest.AwaitRights(c.tb, in, objects...)
	planetest.AwaitServiceAccounts(c.tb, in, objects...)
}

// RunManager runs the provider's controllers, which create pods for ShadowPods, until the test
// ends, with the rights of the chart. The configuration is that of the provider's administrator.
func (c *Clusters) RunManager(config *rest.Config) {
	c.tb.Helper()
	app, err := manager.New(manager.Options{
		ShadowPodWorkers: 5, ShadowEndpointSliceWorkers: 2, Policies: manager.PolicyOptions{CacheDir: c.policyCache},
		Options: process.Options{
			Config: chartrights.As(c.tb, config, chartrights.Namespace, chartrights.Manager), ClusterID: provider, Namespace: chartrights.Namespace, MetricsAddress: "0", HealthProbeAddress: "0",
		},
	})
	require.NoError(c.tb, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	c.tb.Cleanup(func() {
		cancel()
		assert.NoError(c.tb, <-ended)
	})
}

// Proxy starts a proxy in front of a cluster's API server, which requests as the given user,
// until the test ends.
func (c *Clusters) Proxy(cluster *testplane.Cluster, user *rest.Config) *faultproxy.Requests {
	c.tb.Helper()
	certificate, key, err := cluster.IssueServingCert("fault-proxy", nil, "127.0.0.1")
	require.NoError(c.tb, err)
	proxy, err := faultproxy.StartRequests(user, certificate, key)
	require.NoError(c.tb, err)
	c.tb.Cleanup(func() { assert.NoError(c.tb, proxy.Close()) })
	return proxy
}

// RemoteUser returns the configuration of the virtual kubelet in the provider.
func (c *Clusters) RemoteUser() *rest.Config {
	c.tb.Helper()
	config := rest.AnonymousClientConfig(c.Provider.RESTConfig())
	var err error
	config.CertData, config.KeyData, err = c.Provider.IssueClientCert(remoteUser, []string{home})
	require.NoError(c.tb, err)
	return config
}

// kubeconfigs writes the kubeconfig of the consumer's administrator to a file, and creates the
// Secret with that of the provider. An empty URL is the API server's.
func (c *Clusters) kubeconfigs(consumerURL, providerURL string) (home string) {
	c.tb.Helper()
	user := c.RemoteUser()
	remote, err := c.Provider.KubeconfigFor(providerURL, user.CertData, user.KeyData)
	require.NoError(c.tb, err)
	c.Create(c.Rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName, Namespace: Tenant}, Data: map[string][]byte{"kubeconfig": remote}})
	certificate, key, err := c.Consumer.IssueClientCert("virtual-kubelet", []string{"system:masters"})
	require.NoError(c.tb, err)
	content, err := c.Consumer.KubeconfigFor(consumerURL, certificate, key)
	require.NoError(c.tb, err)
	home = filepath.Join(c.tb.TempDir(), "kubeconfig")
	require.NoError(c.tb, os.WriteFile(home, content, 0o600))
	return home
}

func (c *Clusters) mapNamespaces(namespaces []string) {
	c.tb.Helper()
	nm := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: provider, Namespace: Tenant, Labels: map[string]string{
			liqocorev1beta1.RemoteClusterIDLabel: provider, liqocorev1beta1.RemoteIDLabel: provider,
		}},
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{}},
	}
	for _, name := range namespaces {
		nm.Spec.DesiredMapping[name] = Remote(name)
	}
	c.Create(c.Rome, nm)
	nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{}
	c.accept(nm, namespaces)
}

// accept records that the provider has the namespaces.
func (c *Clusters) accept(nm *offloadingv1beta1.NamespaceMap, namespaces []string) {
	c.tb.Helper()
	for _, name := range namespaces {
		nm.Status.CurrentMapping[name] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: Remote(name), Phase: offloadingv1beta1.MappingAccepted}
	}
	require.NoError(c.tb, c.Rome.Status().Update(c.tb.Context(), nm))
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// binding gives the consumer's group the rights of its virtual kubelets.
func binding(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: home, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "liqo-virtual-kubelet-remote"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: home}},
	}
}

// createNamespaces creates namespaces in both clusters, in which the virtual kubelet has its rights.
func (c *Clusters) createNamespaces(names []string) {
	c.tb.Helper()
	for _, name := range names {
		c.Create(c.Rome, namespace(name))
		chartrights.GrantAccess(c.tb, c.Rome, virtualNode(), name)
		c.Create(c.Milan, namespace(Remote(name)), binding(Remote(name)))
	}
}

// MapNamespaces offloads further namespaces, which it creates.
func (c *Clusters) MapNamespaces(namespaces ...string) {
	c.tb.Helper()
	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(c.tb, c.Rome.Get(c.tb.Context(), client.ObjectKey{Namespace: Tenant, Name: provider}, nm))
	c.createNamespaces(namespaces)
	for _, name := range namespaces {
		nm.Spec.DesiredMapping[name] = Remote(name)
	}
	status := nm.Status.DeepCopy()
	require.NoError(c.tb, c.Rome.Update(c.tb.Context(), nm))
	nm.Status = *status
	c.accept(nm, namespaces)
}

// virtualNode tolerates all taints of the provider.
func virtualNode() *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: NodeName, Namespace: Tenant},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID:           provider,
			KubeconfigSecretRef: &corev1.LocalObjectReference{Name: secretName},
			ResourceQuota: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("2000"),
			}},
			OffloadingPatch: &offloadingv1beta1.OffloadingPatch{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
		},
	}
}

// Pod returns a pod that is bound to the virtual node.
func Pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{
			NodeName: NodeName, Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}},
			Tolerations: []corev1.Toleration{{Key: offloadingv1beta1.VirtualNodeTaintKey, Operator: corev1.TolerationOpExists}},
		},
	}
}
