package kubelet_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// testUnansweredRequests drops the responses to some requests, and then to all.
func (f *faults) testUnansweredRequests(t *testing.T) {
	const retries = 3
	f.providerProxy.Break(faultproxy.Silent, requests(http.MethodPost, "shadowpods"))
	stuck := longGracePod("stuck")
	f.create(f.rome, stuck, f.settings("passes", "1"))
	f.awaitRemote("passes", "1")
	f.awaitBroken(t, f.providerProxy, retries, "the request times out and is retried")
	f.providerProxy.Heal()
	f.reportRunning(t, stuck, f.awaitRemotePod(t, "stuck", ""))

	// The provider handles the requests, but the responses are lost.
	f.providerProxy.Break(faultproxy.Unanswered, requests(http.MethodPost, "shadowpods"))
	received := longGracePod("received")
	f.create(f.rome, received)
	shadow, remotePod := f.awaitShadow("received"), f.awaitRemotePod(t, "received", "")
	f.reportRunning(t, received, remotePod)
	f.providerProxy.Break(faultproxy.Unanswered, requests(http.MethodDelete, "shadowpods"))
	f.deletePod(t, stuck, nil)
	f.finishDeletion(t, stuck, f.awaitTerminating(t, "stuck", 600))
	f.providerProxy.Heal()

	// The consumer does not respond.
	f.consumerProxy.Break(faultproxy.Silent, requests(http.MethodPatch, "status"))
	late := longGracePod("late")
	f.create(f.rome, late)
	remoteLate := f.awaitRemotePod(t, "late", "")
	f.reportStatus(t, remoteLate, corev1.PodRunning, map[string]corev1.ContainerState{"web": running})
	f.awaitBroken(t, f.consumerProxy, retries, "the status is retried")
	f.consumerProxy.Heal()
	f.awaitPhase(t, late, corev1.PodRunning)

	// No request is answered, including watches.
	f.providerProxy.Break(faultproxy.Silent, allRequests)
	blind := longGracePod("blind")
	f.create(f.rome, blind)
	require.NoError(t, f.rome.Delete(t.Context(), f.settings("passes", "")))
	f.deletePod(t, late, nil)
	const all = 20
	f.awaitBroken(t, f.providerProxy, all, "requests and watches time out and are retried")
	f.providerProxy.Heal()
	f.reportRunning(t, blind, f.awaitRemotePod(t, "blind", ""))
	require.Eventually(t, func() bool { return f.remote("passes") == nil }, soon, tick)
	f.finishDeletion(t, late, f.awaitTerminating(t, "late", 600))
	assert.Equal(t, shadow.UID, f.awaitShadow("received").UID)
	assert.Equal(t, remotePod.UID, f.awaitRemotePod(t, "received", "").UID)
	f.awaitExactly(t, "received", "blind")
}

// testBusyProvider aborts all requests to the provider and then responds with 429 to all, while
// pods are created, deleted and run.
func (f *faults) testBusyProvider(t *testing.T) {
	const pods, answers, lost = 10, 60, 20
	uids := map[string]types.UID{}
	var names []string
	local := map[string]*corev1.Pod{}
	for i := range pods {
		name := "old-" + strconv.Itoa(i)
		local[name] = f.runPod(t, name)
		uids[name] = f.awaitRemotePod(t, name, "").UID
	}
	f.create(f.rome, f.settings("changed", "1"))
	f.awaitRemote("changed", "1")

	f.providerProxy.Break(faultproxy.Aborted, allRequests)
	for i := range pods {
		name := "new-" + strconv.Itoa(i)
		local[name] = longGracePod(name)
		f.create(f.rome, local[name])
		names = append(names, name)
	}
	f.update(f.settings("changed", "2"))
	for i := range pods / 2 {
		f.deletePod(t, local["old-"+strconv.Itoa(i)], nil)
	}
	f.awaitBroken(t, f.providerProxy, lost, "the provider is not reachable")
	f.providerProxy.Break(faultproxy.TooManyRequests, allRequests)
	f.awaitBroken(t, f.providerProxy, answers, "the provider is busy")
	f.providerProxy.Heal()

	f.awaitRemote("changed", "2")
	for _, name := range names {
		f.reportRunning(t, local[name], f.awaitRemotePod(t, name, ""))
	}
	for i := range pods {
		name := "old-" + strconv.Itoa(i)
		if i < pods/2 {
			f.finishDeletion(t, local[name], f.awaitTerminating(t, name, 600))
			continue
		}
		f.awaitPhase(t, local[name], corev1.PodRunning)
		assert.Empty(t, local[name].Status.Reason)
		assert.Equal(t, uids[name], f.awaitRemotePod(t, name, "").UID, "%s was not replaced", name)
		names = append(names, name)
	}
	f.awaitExactly(t, names...)
	require.NoError(t, f.rome.Delete(t.Context(), f.settings("changed", "")))
}

// testLabelsDuringOutage changes labels of two pods during an outage of the provider. The virtual
// kubelet is killed after it tried to send the first and before the second changes.
func (f *faults) testLabelsDuringOutage(t *testing.T) {
	tried, untried := f.runPod(t, "tried"), f.runPod(t, "untried")
	remotePods := map[string]*corev1.Pod{"tried": f.awaitRemotePod(t, "tried", ""), "untried": f.awaitRemotePod(t, "untried", "")}
	set := func(name string) {
		require.NoError(t, f.rome.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}},
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"late":"x"}}}`))))
	}
	f.providerProxy.Break(faultproxy.Aborted, requests(http.MethodPatch, "shadowpods"))
	set("tried")
	f.awaitBroken(t, f.providerProxy, 2, "the label is retried")
	f.restart(t, func() {
		f.providerProxy.Break(faultproxy.Aborted, allRequests)
		set("untried")
	})
	f.awaitBroken(t, f.providerProxy, 2, "the virtual kubelet starts during the outage")
	f.providerProxy.Heal()
	for name, pod := range remotePods {
		planetest.Until(t, func(t planetest.T) bool {
			shadow, now := &offloadingv1beta1.ShadowPod{}, &corev1.Pod{}
			require.NoError(t, f.milan.Get(t.Context(), client.ObjectKeyFromObject(pod), shadow))
			require.NoError(t, f.milan.Get(t.Context(), client.ObjectKeyFromObject(pod), now))
			require.Equal(t, pod.UID, now.UID)
			return shadow.Labels["late"] == "x" && now.Labels["late"] == "x"
		}, soon, tick, "the label of %s reaches the remote pod", name)
	}
	f.awaitPhase(t, tried, corev1.PodRunning)
	f.awaitPhase(t, untried, corev1.PodRunning)
	f.awaitExactly(t, "tried", "untried")
}
