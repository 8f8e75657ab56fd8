package kubelet_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/app/manager"
	"github.com/longshore-dev/longshore/host/app/process"
	"github.com/longshore-dev/longshore/host/app/scheme"
	"github.com/longshore-dev/longshore/host/consumer/certificate"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/internal/testkit"
	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
)

const (
	tenant     = "liqo-tenant-milan"
	nodeName   = "milan-1"
	secretName = "kubeconfig-resourceslice-milan-1"

	soon = 2 * time.Minute
	tick = 50 * time.Millisecond
)

// rig is a consumer and a provider with the objects that a virtual kubelet needs.
type rig struct {
	t            *testing.T
	rome, milan  client.Client
	consumer     *testplane.Cluster
	provider     *testplane.Cluster
	kubeconfig   []byte
	policyCache  string
	runtimeTypes *runtime.Scheme
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigOf(t, planetest.ForTests(t, "rome", "milan"))
}

// newRigOf returns a rig of a consumer and a provider that run.
func newRigOf(t *testing.T, clusters []*testplane.Cluster) *rig {
	t.Helper()
	s, err := scheme.New()
	require.NoError(t, err)
	r := &rig{t: t, consumer: clusters[0], provider: clusters[1], runtimeTypes: s, policyCache: testkit.PolicyCache(t)}
	r.rome, r.milan = r.client(r.consumer.RESTConfig()), r.client(r.provider.RESTConfig())
	for _, cluster := range clusters {
		planetest.InstallCRDs(t, cluster.RESTConfig())
		chartrights.Install(t, cluster.RESTConfig(), "network")
	}
	r.create(r.rome, namespace(tenant), namespace("shop"))
	r.create(r.milan, namespace("shop-rome"), binding("rome"))
	certificate, key, err := r.provider.IssueClientCert("milan-1-0123456789ab", []string{"rome"})
	require.NoError(t, err)
	r.kubeconfig, err = r.provider.KubeconfigFor("", certificate, key)
	require.NoError(t, err)
	return r
}

func (r *rig) client(config *rest.Config) client.Client {
	r.t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: r.runtimeTypes})
	require.NoError(r.t, err)
	return c
}

// create creates objects. The virtual kubelet of a VirtualNode gets its rights, bindings are in
// effect, and pods can be created in namespaces.
func (r *rig) create(c client.Client, objects ...client.Object) {
	r.t.Helper()
	for _, object := range objects {
		if vn, ok := object.(*offloadingv1beta1.VirtualNode); ok {
			chartrights.GrantVirtualKubelet(r.t, c, vn)
			chartrights.GrantAccess(r.t, c, vn, "shop")
		}
		require.NoError(r.t, c.Create(r.t.Context(), object))
	}
	planetest.AwaitRights(r.t, c, objects...)
	planetest.AwaitServiceAccounts(r.t, c, objects...)
}

// asManager returns the configuration of the manager of a cluster, with the rights of the chart.
func (r *rig) asManager(cluster *testplane.Cluster) *rest.Config {
	r.t.Helper()
	return chartrights.As(r.t, cluster.RESTConfig(), chartrights.Namespace, chartrights.Manager)
}

// asKubelet returns the configuration of the ServiceAccount of a virtual kubelet.
func (r *rig) asKubelet(account string) *rest.Config {
	r.t.Helper()
	return chartrights.As(r.t, r.consumer.RESTConfig(), tenant, account)
}

// binding gives a group the rights of a consumer's virtual kubelets.
func binding(group string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: group, Namespace: "shop-rome"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "liqo-virtual-kubelet-remote"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
}

// runManager runs the provider's controllers, which create pods for ShadowPods.
func (r *rig) runManager() {
	r.t.Helper()
	app, err := manager.New(manager.Options{ShadowPodWorkers: 2, ShadowEndpointSliceWorkers: 2, Policies: manager.PolicyOptions{CacheDir: r.policyCache}, Options: process.Options{
		Config: r.asManager(r.provider), ClusterID: "milan", Namespace: chartrights.Namespace, MetricsAddress: "0", HealthProbeAddress: "0",
	}})
	require.NoError(r.t, err)
	r.background(app.Run)
}

// runApprover runs the consumer's controller that approves certificates, for the pod of nodeName.
func (r *rig) runApprover() {
	r.t.Helper()
	r.createPod()
	r.approveCertificates()
}

func (r *rig) approveCertificates() {
	r.t.Helper()
	mgr, err := ctrl.NewManager(r.asManager(r.consumer), ctrl.Options{
		Scheme: r.runtimeTypes, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(r.t, err)
	require.NoError(r.t, (&certificate.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}}).SetupWithManager(mgr))
	r.background(mgr.Start)
}

// createPod creates the pod of the virtual kubelet with the address of this process.
func (r *rig) createPod() {
	r.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "vk-" + nodeName, Namespace: tenant, Labels: map[string]string{
			offloadingv1beta1.ComponentLabel: offloadingv1beta1.ComponentVirtualKubelet, offloadingv1beta1.VirtualNodeLabel: nodeName,
		}},
		Spec: corev1.PodSpec{ServiceAccountName: nodeName, Containers: []corev1.Container{{Name: "virtual-kubelet", Image: "longshore"}}},
	}
	r.create(r.rome, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: tenant}}, pod)
	before := pod.DeepCopy()
	pod.Status.PodIP, pod.Status.PodIPs = r.consumer.Address(), []corev1.PodIP{{IP: r.consumer.Address()}}
	require.NoError(r.t, r.rome.Status().Patch(r.t.Context(), pod, client.MergeFrom(before)))
}

// background runs a function until the test ends and returns its error in a channel.
func (r *rig) background(run func(context.Context) error) <-chan error {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		ended <- run(ctx)
		close(done)
	}()
	r.t.Cleanup(func() {
		cancel()
		<-done
	})
	return ended
}

func (r *rig) options() kubelet.Options {
	r.t.Helper()
	return optionsFor(r.asKubelet(nodeName), r.consumer.Address(), r.policyCache)
}

func optionsFor(config *rest.Config, nodeIP, policyCache string) kubelet.Options {
	o := kubelet.DefaultOptions()
	o.Config, o.Identity, o.PolicyCacheDir = config, "replica-1", policyCache
	o.ForeignKubeconfigSecretName, o.NodeName, o.NodeIP = secretName, nodeName, nodeIP
	o.TenantNamespace, o.Namespace, o.HomeClusterID, o.ForeignClusterID = tenant, "longshore", "rome", "milan"
	o.NodeCheckNetwork = false
	o.NodePingInterval = time.Second
	return o
}

func (r *rig) runKubelet(o kubelet.Options) <-chan error {
	r.t.Helper()
	log := testr.NewWithInterface(r.t, testr.Options{Verbosity: 1})
	app, err := kubelet.New(ctrl.LoggerInto(r.t.Context(), log), o)
	require.NoError(r.t, err)
	return r.background(app.Run)
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func virtualNode() *offloadingv1beta1.VirtualNode {
	return &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: tenant},
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID:           "milan",
			KubeconfigSecretRef: &corev1.LocalObjectReference{Name: secretName},
			ResourceQuota: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("100"),
			}},
			OffloadingPatch: &offloadingv1beta1.OffloadingPatch{
				LabelsNotReflected: []string{"private"}, Tolerations: []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}},
			},
		},
	}
}

func (r *rig) secret(kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName, Namespace: tenant}, Data: map[string][]byte{"kubeconfig": kubeconfig}}
}

// mapNamespace creates the NamespaceMap with the mapping of shop to shop-rome accepted.
func (r *rig) mapNamespace() {
	r.t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Namespace: tenant, Labels: map[string]string{
			liqocorev1beta1.RemoteClusterIDLabel: "milan", liqocorev1beta1.RemoteIDLabel: "milan",
		}},
		Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"shop": "shop-rome"}},
	}
	r.create(r.rome, nm)
	nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{
		"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted},
	}
	require.NoError(r.t, r.rome.Status().Update(r.t.Context(), nm))
}

func webPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: map[string]string{"app": "web", "private": "x"}},
		Spec: corev1.PodSpec{
			NodeName:    nodeName,
			HostUsers:   new(bool),
			Containers:  []corev1.Container{{Name: "web", Image: "example.com/web:1"}},
			Tolerations: []corev1.Toleration{{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		},
	}
}

func (r *rig) node() (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, r.rome.Get(r.t.Context(), client.ObjectKey{Name: nodeName}, node)
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func TestPodOfTheVirtualNodeRunsInTheProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runManager()
	r.runApprover()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig))
	r.mapNamespace()
	options, otherPods := r.options(), &atomic.Int32{}
	options.Config = rest.CopyConfig(options.Config)
	options.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.URL.Path == "/api/v1/pods" && !strings.Contains(request.URL.Query().Get("fieldSelector"), "spec.nodeName=") {
				otherPods.Add(1)
			}
			return next.RoundTrip(request)
		})
	})
	ended := r.runKubelet(options)

	require.Eventually(t, func() bool {
		node, err := r.node()
		return err == nil && isReady(node)
	}, soon, tick, "the node becomes ready")
	lease := &coordinationv1.Lease{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: nodeName}, lease))
	assert.Equal(t, "replica-1", *lease.Spec.HolderIdentity)
	require.Eventually(t, func() bool {
		return r.rome.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: nodeName}, &coordinationv1.Lease{}) == nil
	}, soon, tick, "the node has its lease")

	r.create(r.rome, webPod())
	remoteKey := client.ObjectKey{Namespace: "shop-rome", Name: "web"}
	shadow, remotePod := &offloadingv1beta1.ShadowPod{}, &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), remoteKey, shadow) == nil && r.milan.Get(t.Context(), remoteKey, remotePod) == nil
	}, soon, tick, "the ShadowPod and its pod exist in the provider")
	assert.Equal(t, map[string]string{
		"app": "web", "offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan", "offloading.liqo.io/nodename": nodeName,
	}, shadow.Labels)
	assert.Contains(t, shadow.Annotations[remote.DecisionsAnnotation], "OffloadingPatch")
	assert.Contains(t, shadow.Spec.Pod.Tolerations, corev1.Toleration{Key: "pool", Operator: corev1.TolerationOpExists})
	assert.False(t, *shadow.Spec.Pod.HostUsers)

	pod := &corev1.Pod{}
	require.Eventually(t, func() bool {
		if err := r.rome.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, pod); err != nil {
			return false
		}
		if err := r.milan.Get(t.Context(), remoteKey, remotePod); err != nil {
			return false
		}
		return pod.Status.Phase == corev1.PodRunning
	}, soon, tick, "the local pod is Running")
	assert.Equal(t, remotePod.Status.PodIP, pod.Status.PodIP, "the status is that of the remote pod")
	assert.NotEmpty(t, pod.Status.PodIP)
	assert.Equal(t, "true", pod.Labels[offloadingv1beta1.LocalPodLabel])

	t.Run("a changed VirtualNode changes the node without a restart", func(t *testing.T) { r.testVirtualNodeChange(t) })
	t.Run("a removed taint is restored", func(t *testing.T) { r.testTaintRestored(t) })
	t.Run("conditions that another client sets are undone", func(t *testing.T) { r.testConditionsRestored(t) })
	t.Run("the kubelet API authenticates and authorizes", func(t *testing.T) { r.testKubeletAPIAccess(t) })
	t.Run("the consumer's API server reads logs of the remote pod", func(t *testing.T) { r.testLogs(t) })
	t.Run("the grace period of a deletion reaches the provider", func(t *testing.T) { r.testGracePeriods(t) })
	t.Run("a quota of the provider is reported on the pod", func(t *testing.T) { r.testQuotaReported(t) })
	t.Run("unmanaged objects of the same names are not changed", func(t *testing.T) { r.testUnmanagedObjects(t) })
	t.Run("a new kubeconfig is used, a broken one is reported", func(t *testing.T) { r.testKubeconfigChange(t) })
	assert.Zero(t, otherPods.Load(), "requests for pods of other nodes")
	select {
	case err := <-ended:
		t.Fatalf("the virtual kubelet ended: %v", err)
	default:
	}
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (r *rig) testVirtualNodeChange(t *testing.T) {
	vn := &offloadingv1beta1.VirtualNode{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: nodeName}, vn))
	patched := vn.DeepCopy()
	patched.Spec.Labels, patched.Spec.Annotations = map[string]string{"zone": "north"}, map[string]string{local.ProviderIDAnnotation: "longshore://{cluster}/{node}"}
	delete(patched.Spec.ResourceQuota.Hard, corev1.ResourcePods)
	patched.Spec.OffloadingPatch.LabelsNotReflected = nil
	require.NoError(t, r.rome.Patch(t.Context(), patched, client.MergeFrom(vn)))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		node, err := r.node()
		require.NoError(c, err)
		assert.Equal(c, "north", node.Labels["zone"])
		assert.Equal(c, "longshore://milan/"+nodeName, node.Spec.ProviderID)
		assert.NotContains(c, node.Status.Capacity, corev1.ResourcePods, "T64")
		assert.NotContains(c, node.Status.Allocatable, corev1.ResourcePods, "T64")
	}, soon, tick)
	require.Eventually(t, func() bool {
		shadow := &offloadingv1beta1.ShadowPod{}
		return r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "web"}, shadow) == nil && shadow.Labels["private"] == "x"
	}, soon, tick, "the offloadingPatch takes effect at once")
}

func (r *rig) testTaintRestored(t *testing.T) {
	node, err := r.node()
	require.NoError(t, err)
	require.NotEmpty(t, node.Spec.Taints)
	untainted := node.DeepCopy()
	untainted.Spec.Taints = nil
	require.NoError(t, r.rome.Patch(t.Context(), untainted, client.MergeFrom(node)))
	require.Eventually(t, func() bool {
		node, err := r.node()
		return err == nil && len(node.Spec.Taints) == 1 && node.Spec.Taints[0].Key == offloadingv1beta1.VirtualNodeTaintKey
	}, soon, tick, "T63")
}

// testKubeletAPIAccess sends requests with different credentials.
func (r *rig) testKubeletAPIAccess(t *testing.T) {
	request := func(config *rest.Config, path string) (int, string) {
		config = rest.AnonymousClientConfig(config)
		config.CAData, config.CAFile, config.Insecure = nil, "", true
		return r.get(t, config, path)
	}
	admin := rest.CopyConfig(r.consumer.RESTConfig())
	withCertificate := func(cn string, orgs ...string) *rest.Config {
		certificate, key, err := r.consumer.IssueClientCert(cn, orgs)
		require.NoError(t, err)
		return &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: certificate, KeyData: key}}
	}
	code, _ := request(admin, "/pods")
	assert.Equal(t, http.StatusUnauthorized, code, "no credentials")
	code, _ = r.get(t, &rest.Config{BearerToken: "invalid", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, "/pods")
	assert.Equal(t, http.StatusUnauthorized, code, "an invalid token")
	code, body := r.get(t, withCertificate("alice"), "/pods")
	assert.Equal(t, http.StatusForbidden, code, "a user without rights")
	assert.Contains(t, body, `user "alice" cannot get nodes/proxy of node "milan-1"`)
	code, body = r.get(t, withCertificate("admin", "system:masters"), "/pods")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, body, `"name":"web"`)
	code, body = r.get(t, withCertificate("admin", "system:masters"), "/containerLogs/default/web/web")
	assert.Equal(t, http.StatusNotFound, code)
	assert.Contains(t, body, "is not offloaded through this node")
}

// testLogs reads a log as kubectl does. The consumer's API server verifies the certificate of
// the kubelet API, which forwards the request to the provider. The provider's API server fails
// to reach the kubelet of a simulated node and logs that.
func (r *rig) testLogs(t *testing.T) {
	pods := planetest.Client(t, r.consumer).CoreV1().Pods("shop")
	require.Eventually(t, func() bool {
		_, err := pods.GetLogs("web", &corev1.PodLogOptions{}).DoRaw(t.Context())
		log, readErr := os.ReadFile(r.provider.LogFile())
		return err != nil && readErr == nil && !strings.Contains(err.Error(), "x509") && strings.Contains(string(log), "/containerLogs/shop-rome/web/web")
	}, soon, tick)
}

func (r *rig) get(t planetest.T, config *rest.Config, path string) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+net.JoinHostPort(r.consumer.Address(), "10250")+path, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func (r *rig) testKubeconfigChange(t *testing.T) {
	require.NoError(t, r.rome.Update(t.Context(), r.secret([]byte("rubbish"))))
	r.awaitEvent("BrokenKubeconfig", `key "kubeconfig"`)
	// Only another identity has rights from now on.
	certificate, key, err := r.provider.IssueClientCert("another", []string{"renewed"})
	require.NoError(t, err)
	require.NoError(t, r.milan.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "rome", Namespace: "shop-rome"}}))
	r.create(r.milan, binding("renewed"))
	renewed, err := r.provider.KubeconfigFor("", certificate, key)
	require.NoError(t, err)
	require.NoError(t, r.rome.Update(t.Context(), r.secret(renewed)))
	second := webPod()
	second.Name = "second"
	r.create(r.rome, second)
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "second"}, &offloadingv1beta1.ShadowPod{}) == nil
	}, soon, tick)
}

// awaitEvent waits for an event on the VirtualNode.
func (r *rig) awaitEvent(reason, part string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		events := &corev1.EventList{}
		if r.rome.List(r.t.Context(), events, client.InNamespace(tenant)) != nil {
			return false
		}
		for i := range events.Items {
			if events.Items[i].InvolvedObject.Kind == "VirtualNode" && events.Items[i].Reason == reason && strings.Contains(events.Items[i].Message, part) {
				return true
			}
		}
		return false
	}, soon, tick, "event %s with %q on the VirtualNode", reason, part)
}
