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

// testKilledBeforeStatus kills the virtual kubelet while it creates two ShadowPods. The provider
// has received one of the requests.
func (f *faults) testKilledBeforeStatus(t *testing.T) {
	f.providerProxy.Break(faultproxy.Unanswered, requests(http.MethodPost, "shadowpods"))
	received := longGracePod("received")
	f.create(f.rome, received)
	shadow, remotePod := f.awaitShadow("received"), f.awaitRemotePod(t, "received", "")
	f.providerProxy.Break(faultproxy.Silent, requests(http.MethodPost, "shadowpods"))
	lost := longGracePod("lost")
	f.create(f.rome, lost)
	f.awaitBroken(t, f.providerProxy, 1, "the creation of the second ShadowPod")

	f.restart(t, func() {
		f.reportStatus(t, remotePod, corev1.PodRunning, map[string]corev1.ContainerState{remotePod.Spec.Containers[0].Name: running})
	})
	f.awaitPhase(t, received, corev1.PodRunning)
	f.reportRunning(t, lost, f.awaitRemotePod(t, "lost", ""))
	assert.Equal(t, shadow.UID, f.awaitShadow("received").UID)
	assert.Equal(t, remotePod.UID, f.awaitRemotePod(t, "received", "").UID)
	f.awaitExactly(t, "received", "lost")
}

// testKilledDuringDeletion kills the virtual kubelet after one deletion has reached the provider
// and before another does. Further pods are deleted while no virtual kubelet runs.
func (f *faults) testKilledDuringDeletion(t *testing.T) {
	received, endsMeanwhile, lost := f.runPod(t, "received"), f.runPod(t, "ends-meanwhile"), f.runPod(t, "lost")
	forced, replaced := f.runPod(t, "forced"), f.runPod(t, "replaced")
	staleReplaced := f.awaitRemotePod(t, "replaced", "")
	f.providerProxy.Break(faultproxy.Unanswered, requests(http.MethodDelete, "shadowpods"))
	f.deletePod(t, received, nil)
	f.deletePod(t, endsMeanwhile, nil)
	remoteReceived, remoteMeanwhile := f.awaitTerminating(t, "received", 600), f.awaitTerminating(t, "ends-meanwhile", 600)
	f.providerProxy.Break(faultproxy.Silent, requests(http.MethodDelete, "shadowpods"))
	f.deletePod(t, lost, nil)
	f.awaitBroken(t, f.providerProxy, 1, "the deletion of the ShadowPod")

	replacement := longGracePod("replaced")
	f.restart(t, func() {
		require.NoError(t, f.milan.Delete(t.Context(), remoteMeanwhile, client.GracePeriodSeconds(0)))
		f.deletePod(t, forced, ptr.To[int64](0))
		f.deletePod(t, replaced, ptr.To[int64](0))
		f.create(f.rome, replacement)
	})
	f.awaitDeleted(t, f.rome, endsMeanwhile)
	remoteLost, remoteForced := f.awaitTerminating(t, "lost", 600), f.awaitTerminating(t, "forced", 600)
	for _, pod := range []*corev1.Pod{received, lost} {
		require.NoError(t, f.rome.Get(t.Context(), client.ObjectKeyFromObject(pod), pod), "T17: %s stays until the provider has ended it", pod.Name)
	}
	f.finishDeletion(t, received, remoteReceived)
	f.finishDeletion(t, lost, remoteLost)
	f.finishDeletion(t, forced, remoteForced)
	// The new pod of the same name waits until the stale remote pod is deleted.
	assert.Equal(t, staleReplaced.UID, f.awaitTerminating(t, "replaced", 600).UID)
	require.NoError(t, f.milan.Delete(t.Context(), staleReplaced, client.GracePeriodSeconds(0)))
	f.reportRunning(t, replacement, f.awaitRemotePod(t, "replaced", staleReplaced.UID))
	f.awaitExactly(t, "replaced")
}

// testKilledDuringEviction kills the virtual kubelet while one pod is evicted from a node of the
// provider and another from the virtual node.
func (f *faults) testKilledDuringEviction(t *testing.T) {
	moves, leaves := f.runPod(t, "moves"), f.runPod(t, "leaves")
	stale, shadow := f.awaitRemotePod(t, "moves", ""), f.awaitShadow("moves")
	require.NoError(t, f.milan.SubResource("eviction").Create(t.Context(), stale, &policyv1.Eviction{}))
	f.awaitTerminating(t, "moves", 600)
	f.providerProxy.Break(faultproxy.Unanswered, requests(http.MethodDelete, "shadowpods"))
	require.NoError(t, f.rome.SubResource("eviction").Create(t.Context(), leaves, &policyv1.Eviction{}))
	remoteLeaves := f.awaitTerminating(t, "leaves", 600)
	f.awaitDeleted(t, f.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: remoteLeaves.ObjectMeta})

	next := &corev1.Pod{}
	f.restart(t, func() {
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}}
		f.reportStatus(t, stale, corev1.PodFailed, map[string]corev1.ContainerState{stale.Spec.Containers[0].Name: ended})
		require.NoError(t, f.milan.Delete(t.Context(), stale, client.GracePeriodSeconds(0)))
		next = f.awaitRemotePod(t, "moves", stale.UID)
	})
	f.reportRunning(t, moves, next)
	require.NoError(t, f.rome.Get(t.Context(), client.ObjectKeyFromObject(leaves), leaves), "T17")
	f.finishDeletion(t, leaves, remoteLeaves)
	assert.Equal(t, shadow.UID, f.awaitShadow("moves").UID)
	assert.Equal(t, next.UID, f.awaitRemotePod(t, "moves", "").UID)
	f.awaitExactly(t, "moves")
}
