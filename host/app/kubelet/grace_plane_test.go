package kubelet_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// testGracePeriods deletes pods with different grace periods. Their remote pods run on a
// node without a kubelet and stay until the test deletes them. All periods are long, because
// the API server shortens an expired one to a second.
func (r *rig) testGracePeriods(t *testing.T) {
	r.createNodeWithoutKubelet(t)
	defer r.setOffloadingPatch(t, offloadingv1beta1.OffloadingPatch{
		NodeSelector: map[string]string{"pool": "still"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	})()

	t.Run("shorter than the pod's own", func(t *testing.T) {
		pod := r.runPod(t, "less")
		r.deletePod(t, pod, ptr.To[int64](300))
		remotePod := r.awaitTerminating(t, "less", 300)
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod), "T17")
		r.finishDeletion(t, pod, remotePod)
	})
	t.Run("the pod's own, then a shorter one, then zero", func(t *testing.T) {
		pod := r.runPod(t, "own")
		r.deletePod(t, pod, nil)
		r.awaitDeleted(t, r.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: r.awaitTerminating(t, "own", 600).ObjectMeta})
		require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod), "T17")
		r.deletePod(t, pod, ptr.To[int64](300))
		r.awaitTerminating(t, "own", 300)
		r.deletePod(t, pod, ptr.To[int64](0))
		r.awaitDeleted(t, r.rome, pod)
		r.finishDeletion(t, pod, r.awaitTerminating(t, "own", 1))
	})
	t.Run("longer than the pod's own", func(t *testing.T) {
		pod := r.runPod(t, "more")
		r.deletePod(t, pod, ptr.To[int64](1200))
		r.finishDeletion(t, pod, r.awaitTerminating(t, "more", 1200))
	})
	t.Run("the remote pod loses its labels while it ends", func(t *testing.T) { r.testLostLabels(t) })
	t.Run("a pod of a Job that the provider evicts runs again", func(t *testing.T) { r.testEviction(t) })
	t.Run("zero", func(t *testing.T) {
		pod := r.runPod(t, "none")
		r.deletePod(t, pod, ptr.To[int64](0))
		r.awaitDeleted(t, r.rome, pod)
		r.finishDeletion(t, pod, r.awaitTerminating(t, "none", 1))
	})
}

// testLostLabels removes the labels by which the virtual kubelet watches a terminating remote pod. The
// local pod stays until the remote one has ended: a StatefulSet would start it a second time.
func (r *rig) testLostLabels(t *testing.T) {
	watcher, err := client.NewWithWatch(r.provider.RESTConfig(), client.Options{Scheme: r.runtimeTypes})
	require.NoError(t, err)
	pod := r.runPod(t, "unlabeled")
	list := &corev1.PodList{}
	require.NoError(t, r.milan.List(t.Context(), list, client.InNamespace("shop-rome")))
	watched, err := watcher.Watch(t.Context(), &corev1.PodList{}, client.InNamespace("shop-rome"),
		client.HasLabels{offloadingv1beta1.NodeNameLabel}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	require.NoError(t, err)
	defer watched.Stop()
	r.deletePod(t, pod, nil)
	remotePod := r.awaitTerminating(t, "unlabeled", 600)
	r.awaitDeleted(t, r.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: remotePod.ObjectMeta})
	require.NoError(t, r.milan.Patch(t.Context(), remotePod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))))
	assert.EqualValues(t, 600, *awaitLeaving(t, watched, "unlabeled").DeletionGracePeriodSeconds, "the pod leaves the watch before it has ended")
	require.Eventually(t, func() bool {
		events := &corev1.EventList{}
		return r.rome.List(t.Context(), events, client.InNamespace("shop")) == nil && slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == pod.UID && e.Reason == "RemotePodUnlabeled"
		})
	}, soon, tick, "the owner of the pod reads why it stays")
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod), "T17")
	r.finishDeletion(t, pod, remotePod)

	other := r.runPod(t, "labeled")
	r.deletePod(t, other, nil)
	r.finishDeletion(t, other, r.awaitTerminating(t, "labeled", 600))
	assert.Zero(t, *awaitLeaving(t, watched, "labeled").DeletionGracePeriodSeconds, "an end that a kubelet confirms shows, so that it needs no request")
}

// awaitLeaving waits until a pod leaves a watch, and returns its last state.
func awaitLeaving(t *testing.T, watched watch.Interface, name string) *corev1.Pod {
	t.Helper()
	timeout := time.NewTimer(soon)
	defer timeout.Stop()
	for {
		select {
		case event, ok := <-watched.ResultChan():
			require.True(t, ok, "the watch goes on")
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Deleted && pod.Name == name {
				return pod
			}
		case <-timeout.C:
			require.FailNow(t, "the pod does not leave the watch", name)
		}
	}
}

// createNodeWithoutKubelet creates a node of the provider. The test writes the status of its
// pods.
func (r *rig) createNodeWithoutKubelet(t *testing.T) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "milan-still", Labels: map[string]string{"pool": "still"}}}
	r.create(r.milan, node)
	before := node.DeepCopy()
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("50"),
	}
	node.Status.Capacity = node.Status.Allocatable
	// A patch, because the provider's controllers write to the node too.
	require.NoError(t, r.milan.Status().Patch(t.Context(), node, client.MergeFrom(before)))
}

// setOffloadingPatch sets the VirtualNode's offloadingPatch. The returned function restores it.
func (r *rig) setOffloadingPatch(t *testing.T, patch offloadingv1beta1.OffloadingPatch) (restore func()) {
	t.Helper()
	vn := &offloadingv1beta1.VirtualNode{}
	set := func(patch *offloadingv1beta1.OffloadingPatch) {
		before := vn.DeepCopy()
		vn.Spec.OffloadingPatch = patch
		require.NoError(t, r.rome.Patch(t.Context(), vn, client.MergeFrom(before)))
	}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: nodeName}, vn))
	previous := vn.Spec.OffloadingPatch.DeepCopy()
	// The labels of another pod change when the patch takes effect.
	patch.LabelsNotReflected = []string{"app"}
	set(&patch)
	require.Eventually(t, func() bool {
		shadow := &offloadingv1beta1.ShadowPod{}
		if err := r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "web"}, shadow); err != nil {
			return false
		}
		return shadow.Labels["app"] == ""
	}, soon, tick, "the offloadingPatch takes effect")
	return func() { set(previous) }
}

// runPod offloads a pod with a grace period of ten minutes, reports its remote pod as Running
// and waits until the local pod is.
func (r *rig) runPod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := podOn(nodeName, name)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	r.create(r.rome, pod)
	remotePod := r.awaitRemotePod(t, name, "")
	require.Equal(t, "milan-still", remotePod.Spec.NodeName)
	status, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: remotePod.Spec.Containers[0].Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}})
	require.NoError(t, err)
	require.NoError(t, r.milan.Status().Patch(t.Context(), remotePod, client.RawPatch(types.MergePatchType, status)))
	require.Eventually(t, func() bool {
		return r.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.Status.Phase == corev1.PodRunning
	}, soon, tick, "the local pod is Running")
	return pod
}

// deletePod deletes a local pod with a grace period, or with its own for nil.
func (r *rig) deletePod(t *testing.T, pod *corev1.Pod, seconds *int64) {
	t.Helper()
	require.NoError(t, r.rome.Delete(t.Context(), pod, &client.DeleteOptions{GracePeriodSeconds: seconds}))
}

// awaitTerminating waits until the remote pod is deleted with a grace period.
func (r *rig) awaitTerminating(t *testing.T, name string, seconds int64) *corev1.Pod {
	t.Helper()
	key, remotePod := client.ObjectKey{Namespace: "shop-rome", Name: name}, &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), key, remotePod) == nil && remotePod.DeletionTimestamp != nil && *remotePod.DeletionGracePeriodSeconds == seconds
	}, soon, tick, "the remote pod has a grace period of %d s", seconds)
	return remotePod
}

func (r *rig) awaitDeleted(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}, soon, tick, "%T %s is deleted", object, object.GetName())
}

// finishDeletion deletes the remote pod as its kubelet does after the end of its containers,
// and waits until all three objects are deleted. The ShadowPod goes before: with a longer grace period, it is
// deleted by the next request after the pod, and until then the provider would create another pod.
func (r *rig) finishDeletion(t *testing.T, pod, remotePod *corev1.Pod) {
	t.Helper()
	r.awaitDeleted(t, r.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: remotePod.Namespace, Name: remotePod.Name}})
	require.NoError(t, r.milan.Delete(t.Context(), remotePod, client.GracePeriodSeconds(0)))
	r.awaitDeleted(t, r.rome, pod)
	err := r.milan.Get(t.Context(), client.ObjectKeyFromObject(remotePod), remotePod)
	assert.True(t, apierrors.IsNotFound(err), "the remote pod is not created again")
}
