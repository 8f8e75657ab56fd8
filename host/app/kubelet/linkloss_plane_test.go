package kubelet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/kubelet"
	"github.com/longshore-dev/longshore/host/consumer/podstatus"
)

const (
	// gracePeriod is longer than the time after which Kubernetes marks a Node without a heartbeat.
	gracePeriod = 2 * time.Minute
	// monitorGracePeriod is that time in this test, and nodeLeaseDuration that of the Node's lease,
	// which is renewed four times as often. The defaults, 50 and 40 seconds, have the same order.
	monitorGracePeriod = 16 * time.Second
	nodeLeaseDuration  = 12 * time.Second
)

// runPodStatus runs the consumer's controller that labels the pods of Nodes that are not ready.
func (r *rig) runPodStatus() {
	r.t.Helper()
	mgr, err := ctrl.NewManager(r.asManager(r.consumer), ctrl.Options{
		Scheme: r.runtimeTypes, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(r.t, err)
	require.NoError(r.t, (&podstatus.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}).SetupWithManager(mgr))
	r.background(mgr.Start)
}

func podReady(pod *corev1.Pod) corev1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status
		}
	}
	return ""
}

// The connection to the provider is lost: the Node is marked, its pods are labeled and not
// ready, also after their status was written from stale data. All is restored with the
// connection.
func TestPodsAreNotReadyWhileTheProviderIsUnreachable(t *testing.T) {
	t.Parallel()
	r := newRigOf(t, []*testplane.Cluster{
		planetest.ForTest(t, "rome", func(o *testplane.Options) {
			o.ManagerArgs = []string{"--node-monitor-grace-period=" + monitorGracePeriod.String()}
		}),
		planetest.ForTest(t, "milan"),
	})
	proxy, err := faultproxy.Start(r.provider.Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	certificate, key, err := r.provider.IssueClientCert("milan-1-through-a-proxy", []string{"rome"})
	require.NoError(t, err)
	kubeconfig, err := r.provider.KubeconfigFor(proxy.URL(), certificate, key)
	require.NoError(t, err)
	r.runManager()
	r.runPodStatus()
	planetest.SimulateNodes(t, r.provider, "milan-worker")
	r.create(r.rome, virtualNode(), r.secret(kubeconfig))
	r.mapNamespace()
	o := r.options()
	o.CertificateType, o.NodeLeaseDuration = string(kubelet.CertificateSelfSigned), nodeLeaseDuration
	ended := r.runKubelet(o)
	awaitReadyNode := func() {
		t.Helper()
		planetest.Until(t, func(planetest.T) bool {
			node, err := r.node()
			return err == nil && isReady(node)
		}, soon, tick, "the Node is ready")
	}
	// Kubernetes collects a pod whose Node does not exist.
	awaitReadyNode()

	pod := podOn(nodeName, "web")
	r.create(r.rome, pod)
	await := func(patience time.Duration, isLabeled bool, ready corev1.ConditionStatus) {
		t.Helper()
		uid := pod.UID
		planetest.Until(t, func(t planetest.T) bool {
			require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			require.Equal(t, isLabeled, pod.Labels[offloadingv1beta1.RemoteUnavailableLabel] == "true", "label")
			require.Equal(t, ready, podReady(pod), "condition Ready")
			return true
		}, patience, tick, "labeled: %t, ready: %s", isLabeled, ready)
		require.Equal(t, uid, pod.UID)
	}
	await(soon, false, corev1.ConditionTrue)
	remotePod := r.awaitRemotePod(t, "web", "")

	proxy.Cut(faultproxy.Blackhole)
	await(gracePeriod, true, corev1.ConditionFalse)
	node, err := r.node()
	require.NoError(t, err)
	assert.Equal(t, corev1.ConditionUnknown, readyCondition(node).Status)
	// Another client, or a request that was under way, writes that the pod is ready.
	stale := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	require.NoError(t, r.rome.Status().Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, stale)))
	await(soon, true, corev1.ConditionFalse)

	proxy.Heal()
	await(soon, false, corev1.ConditionTrue)
	assert.Equal(t, remotePod.UID, r.awaitRemotePod(t, "web", "").UID, "the remote pod was not replaced")
	awaitReadyNode()
	assert.Empty(t, ended)
}
