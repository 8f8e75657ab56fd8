package kubelet_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// gives deletes pods with grace periods of many kinds (T16). Their remote pods run on a
// node that nobody plays: what is seen of a deletion stays until the test ends it. All
// periods are long: of one that is over, the API server makes one second.
func (r *rig) gives(t *testing.T) {
	r.createStillNode(t)
	defer r.steer(t, offloadingv1beta1.OffloadingPatch{
		NodeSelector: map[string]string{"pool": "still"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	})()

	t.Run("less than its own", func(t *testing.T) {
		pod := r.runs(t, "less")
		r.deletes(t, pod, ptr.To[int64](300))
		there := r.goes(t, "less", 300)
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod), "T17")
		r.endsAll(t, pod, there)
	})
	t.Run("its own, and less while it goes, and none", func(t *testing.T) {
		pod := r.runs(t, "own")
		r.deletes(t, pod, nil)
		r.vanishes(t, r.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: r.goes(t, "own", 600).ObjectMeta})
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod), "T17")
		r.deletes(t, pod, ptr.To[int64](300))
		r.goes(t, "own", 300)
		r.deletes(t, pod, ptr.To[int64](0))
		r.vanishes(t, r.rome, pod)
		r.endsAll(t, pod, r.goes(t, "own", 1))
	})
	t.Run("more than its own", func(t *testing.T) {
		pod := r.runs(t, "more")
		r.deletes(t, pod, ptr.To[int64](1200))
		r.endsAll(t, pod, r.goes(t, "more", 1200))
	})
	t.Run("a pod of a Job that the provider evicts runs once more", func(t *testing.T) { r.evicts(t) })
	t.Run("none, by force", func(t *testing.T) {
		pod := r.runs(t, "none")
		r.deletes(t, pod, ptr.To[int64](0))
		r.vanishes(t, r.rome, pod)
		r.endsAll(t, pod, r.goes(t, "none", 1))
	})
}

// createStillNode creates a node of the provider whose kubelet the test plays.
func (r *rig) createStillNode(t *testing.T) {
	t.Helper()
	still := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-still", Labels: map[string]string{"pool": "still"}}}
	r.create(r.milan, still)
	before := still.DeepCopy()
	still.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("50"),
	}
	still.Status.Capacity = still.Status.Allocatable
	// A patch, since the controllers of the provider write to the node as well.
	require.NoError(t, r.milan.Status().Patch(t.Context(), still, client.MergeFrom(before)))
}

// steer sets the VirtualNode's offloadingPatch, and returns what puts it back.
func (r *rig) steer(t *testing.T, patch offloadingv1beta1.OffloadingPatch) (restore func()) {
	t.Helper()
	vn := &offloadingv1beta1.VirtualNode{}
	set := func(patch *offloadingv1beta1.OffloadingPatch) {
		before := vn.DeepCopy()
		vn.Spec.OffloadingPatch = patch
		require.NoError(t, r.rome.Patch(t.Context(), vn, client.MergeFrom(before)))
	}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: nodeName}, vn))
	was := vn.Spec.OffloadingPatch.DeepCopy()
	// The label of another pod shows when the patch has been taken over.
	patch.LabelsNotReflected = []string{"app"}
	set(&patch)
	require.Eventually(t, func() bool {
		shadow := &offloadingv1beta1.ShadowPod{}
		if err := r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "web"}, shadow); err != nil {
			return false
		}
		return shadow.Labels["app"] == ""
	}, soon, tick, "the offloadingPatch takes effect")
	return func() { set(was) }
}

// runs offloads a pod with ten minutes of grace, plays the kubelet of its remote pod, and
// returns when the local pod says that it runs: the virtual kubelet knows both then.
func (r *rig) runs(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := podOn(nodeName, name)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	r.create(r.rome, pod)
	there := &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, there) == nil && there.Spec.NodeName != ""
	}, soon, tick, "the remote pod is scheduled")
	require.Equal(t, "milan-still", there.Spec.NodeName)
	status, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: there.Spec.Containers[0].Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}})
	require.NoError(t, err)
	require.NoError(t, r.milan.Status().Patch(t.Context(), there, client.RawPatch(types.MergePatchType, status)))
	require.Eventually(t, func() bool {
		return r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.Status.Phase == corev1.PodRunning
	}, soon, tick, "the local pod runs")
	return pod
}

func (r *rig) deletes(t *testing.T, pod *corev1.Pod, seconds *int64) {
	t.Helper()
	require.NoError(t, r.rome.Delete(t.Context(), pod, &client.DeleteOptions{GracePeriodSeconds: seconds}))
}

// goes waits until the remote pod ends with some seconds of grace.
func (r *rig) goes(t *testing.T, name string, seconds int64) *corev1.Pod {
	t.Helper()
	key, there := client.ObjectKey{Namespace: "shop-rome", Name: name}, &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), key, there) == nil && there.DeletionTimestamp != nil && *there.DeletionGracePeriodSeconds == seconds
	}, soon, tick, "the remote pod is given %d s", seconds)
	return there
}

func (r *rig) vanishes(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}, soon, tick, "%T %s is gone", object, object.GetName())
}

// endsAll plays the kubelet that confirms the end: then all three objects go.
func (r *rig) endsAll(t *testing.T, pod, there *corev1.Pod) {
	t.Helper()
	require.NoError(t, r.milan.Delete(t.Context(), there, client.GracePeriodSeconds(0)))
	r.vanishes(t, r.rome, pod)
	r.vanishes(t, r.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: there.Namespace, Name: there.Name}})
	err := r.milan.Get(t.Context(), client.ObjectKeyFromObject(there), there)
	assert.True(t, apierrors.IsNotFound(err), "and none is made again")
}
