package kubelet_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// killedBeforeStatus kills the virtual kubelet while it creates ShadowPods: of one the
// provider has seen the request, of the other it has not.
func (f *faults) killedBeforeStatus(t *testing.T) {
	f.there.Break(faultproxy.Unanswered, requests(http.MethodPost, "shadowpods"))
	made := long("made")
	f.create(f.rome, made)
	shadow, there := f.awaitShadow("made"), f.remoteAfter(t, "made", "")
	f.there.Break(faultproxy.Silent, requests(http.MethodPost, "shadowpods"))
	lost := long("lost")
	f.create(f.rome, lost)
	f.awaitBroken(t, f.there, 1, "the ShadowPod is about to be created")

	f.restart(t, func() {
		f.report(t, there, corev1.PodRunning, map[string]corev1.ContainerState{there.Spec.Containers[0].Name: running})
	})
	f.awaitLocal(t, made, corev1.PodRunning)
	f.awaitRuns(t, lost, f.remoteAfter(t, "lost", ""))
	assert.Equal(t, shadow.UID, f.awaitShadow("made").UID)
	assert.Equal(t, there.UID, f.remoteAfter(t, "made", "").UID)
	f.pairs(t, "made", "lost")
}

// killedDuringDeletion kills the virtual kubelet when it has asked the provider to end a
// pod, and before that request arrives; other pods go while there is no virtual kubelet.
func (f *faults) killedDuringDeletion(t *testing.T) {
	asked, endsMeanwhile, unasked := f.runs(t, "asked"), f.runs(t, "ends-meanwhile"), f.runs(t, "unasked")
	forced, replaced := f.runs(t, "forced"), f.runs(t, "replaced")
	staleReplaced := f.remoteAfter(t, "replaced", "")
	f.there.Break(faultproxy.Unanswered, requests(http.MethodDelete, "shadowpods"))
	f.deletes(t, asked, nil)
	f.deletes(t, endsMeanwhile, nil)
	thereAsked, thereMeanwhile := f.goes(t, "asked", 600), f.goes(t, "ends-meanwhile", 600)
	f.there.Break(faultproxy.Silent, requests(http.MethodDelete, "shadowpods"))
	f.deletes(t, unasked, nil)
	f.awaitBroken(t, f.there, 1, "the ShadowPod is about to be deleted")

	again := long("replaced")
	f.restart(t, func() {
		require.NoError(t, f.milan.Delete(t.Context(), thereMeanwhile, client.GracePeriodSeconds(0)))
		f.deletes(t, forced, ptr.To[int64](0))
		f.deletes(t, replaced, ptr.To[int64](0))
		f.create(f.rome, again)
	})
	f.vanishes(t, f.rome, endsMeanwhile)
	thereUnasked, thereForced := f.goes(t, "unasked", 600), f.goes(t, "forced", 600)
	for _, pod := range []*corev1.Pod{asked, unasked} {
		require.NoError(t, f.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod), "T17: %s stays until the provider has ended it", pod.Name)
	}
	f.endsAll(t, asked, thereAsked)
	f.endsAll(t, unasked, thereUnasked)
	f.endsAll(t, forced, thereForced)
	// The pod that came under the old name waits for the end of the old one.
	assert.Equal(t, staleReplaced.UID, f.goes(t, "replaced", 600).UID)
	require.NoError(t, f.milan.Delete(t.Context(), staleReplaced, client.GracePeriodSeconds(0)))
	f.awaitRuns(t, again, f.remoteAfter(t, "replaced", staleReplaced.UID))
	f.pairs(t, "replaced")
}

// killedDuringEviction kills the virtual kubelet while one pod is evicted from the provider's
// node and another from the virtual node.
func (f *faults) killedDuringEviction(t *testing.T) {
	moves, leaves := f.runs(t, "moves"), f.runs(t, "leaves")
	stale, shadow := f.remoteAfter(t, "moves", ""), f.awaitShadow("moves")
	require.NoError(t, f.milan.SubResource("eviction").Create(t.Context(), stale, &policyv1.Eviction{}))
	f.goes(t, "moves", 600)
	f.there.Break(faultproxy.Unanswered, requests(http.MethodDelete, "shadowpods"))
	require.NoError(t, f.rome.SubResource("eviction").Create(t.Context(), leaves, &policyv1.Eviction{}))
	thereLeaves := f.goes(t, "leaves", 600)
	f.vanishes(t, f.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: thereLeaves.ObjectMeta})

	next := &corev1.Pod{}
	f.restart(t, func() {
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}
		f.report(t, stale, corev1.PodFailed, map[string]corev1.ContainerState{stale.Spec.Containers[0].Name: ended})
		require.NoError(t, f.milan.Delete(t.Context(), stale, client.GracePeriodSeconds(0)))
		next = f.remoteAfter(t, "moves", stale.UID)
	})
	f.awaitRuns(t, moves, next)
	require.NoError(t, f.rome.Get(t.Context(), client.ObjectKeyFromObject(leaves), leaves), "T17")
	f.endsAll(t, leaves, thereLeaves)
	assert.Equal(t, shadow.UID, f.awaitShadow("moves").UID)
	assert.Equal(t, next.UID, f.remoteAfter(t, "moves", "").UID)
	f.pairs(t, "moves")
}
