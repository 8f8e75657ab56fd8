package shadowpod_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/provider/nodefailure"
	"github.com/longshore-dev/longshore/host/provider/shadowpod"
)

func (r *rig) setReady(t *testing.T, status corev1.ConditionStatus) {
	t.Helper()
	node := &corev1.Node{}
	require.NoError(t, r.milan.Get(t.Context(), client.ObjectKey{Name: nodeName}, node))
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.Now()}}
	require.NoError(t, r.milan.Status().Patch(t.Context(), node, client.MergeFrom(before)))
}

// A pod that is deleted on a Node that is not ready is replaced without the kubelet.
func TestPodsOfFailedNodesAreReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mgr, err := ctrl.NewManager(r.asManager(t), ctrl.Options{
		Scheme: r.milan.Scheme(), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	require.NoError(t, (&shadowpod.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Events: events.New(mgr, "test", time.Now), Clock: clock.RealClock{},
	}).SetupWithManager(mgr, 2))
	require.NoError(t, (&nodefailure.Reconciler{Client: mgr.GetClient()}).SetupWithManager(t.Context(), mgr))
	r.setReady(t, corev1.ConditionTrue)
	background(t, mgr.Start)

	_, first := r.offload(t, "web")
	r.delete(t, first, metav1.DeletePropagationBackground)
	assert.Equal(t, first.UID, r.ends(t, "web", 600).UID)
	// The controller has handled the deletion when another pod was created after it.
	r.offload(t, "next")
	assert.Equal(t, first.UID, r.ends(t, "web", 600).UID, "the kubelet of a Node that is ready ends the pod")

	r.setReady(t, corev1.ConditionUnknown)
	replaced := func(uid string) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool { return string(pod.UID) != uid && pod.DeletionTimestamp == nil }
	}
	second := r.await(t, "web", "is created again", replaced(string(first.UID)))
	r.delete(t, second, metav1.DeletePropagationBackground)
	r.await(t, "web", "is created again when it is deleted on a Node that has failed before", replaced(string(second.UID)))
}
