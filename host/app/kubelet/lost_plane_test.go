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

// unansweredRequests takes requests and never answers them, of some kinds and then of all.
func (f *faults) unansweredRequests(t *testing.T) {
	const retries = 3
	f.there.Break(faultproxy.Silent, requests(http.MethodPost, "shadowpods"))
	stuck := long("stuck")
	f.create(f.rome, stuck, f.settings("passes", "1"))
	f.awaitRemote("passes", "1")
	f.awaitBroken(t, f.there, retries, "a request ends without an answer, and is tried again")
	f.there.Heal()
	f.awaitRuns(t, stuck, f.remoteAfter(t, "stuck", ""))

	// The provider carries out what it does not answer.
	f.there.Break(faultproxy.Unanswered, requests(http.MethodPost, "shadowpods"))
	made := long("made")
	f.create(f.rome, made)
	shadow, there := f.awaitShadow("made"), f.remoteAfter(t, "made", "")
	f.awaitRuns(t, made, there)
	f.there.Break(faultproxy.Unanswered, requests(http.MethodDelete, "shadowpods"))
	f.deletes(t, stuck, nil)
	f.endsAll(t, stuck, f.goes(t, "stuck", 600))
	f.there.Heal()

	// The consumer does not answer either.
	f.here.Break(faultproxy.Silent, requests(http.MethodPatch, "status"))
	late := long("late")
	f.create(f.rome, late)
	thereLate := f.remoteAfter(t, "late", "")
	f.report(t, thereLate, corev1.PodRunning, map[string]corev1.ContainerState{"web": running})
	f.awaitBroken(t, f.here, retries, "the status is tried again")
	f.here.Heal()
	f.awaitLocal(t, late, corev1.PodRunning)

	// Nothing is answered any more, watches included.
	f.there.Break(faultproxy.Silent, everything)
	blind := long("blind")
	f.create(f.rome, blind)
	require.NoError(t, f.rome.Delete(t.Context(), f.settings("passes", "")))
	f.deletes(t, late, nil)
	const all = 20
	f.awaitBroken(t, f.there, all, "requests and watches end, and are tried again")
	f.there.Heal()
	f.awaitRuns(t, blind, f.remoteAfter(t, "blind", ""))
	require.Eventually(t, func() bool { return f.remote("passes") == nil }, soon, tick)
	f.endsAll(t, late, f.goes(t, "late", 600))
	assert.Equal(t, shadow.UID, f.awaitShadow("made").UID)
	assert.Equal(t, there.UID, f.remoteAfter(t, "made", "").UID)
	f.pairs(t, "made", "blind")
}

// busyAfterOutage takes the provider away, and lets it answer 429 to everything when it is
// back, while pods come, go and run.
func (f *faults) busyAfterOutage(t *testing.T) {
	const pods, answers, lost = 10, 60, 20
	uids := map[string]types.UID{}
	var names []string
	local := map[string]*corev1.Pod{}
	for i := range pods {
		name := "old-" + strconv.Itoa(i)
		local[name] = f.runs(t, name)
		uids[name] = f.remoteAfter(t, name, "").UID
	}
	f.create(f.rome, f.settings("changed", "1"))
	f.awaitRemote("changed", "1")

	f.there.Break(faultproxy.Aborted, everything)
	for i := range pods {
		name := "new-" + strconv.Itoa(i)
		local[name] = long(name)
		f.create(f.rome, local[name])
		names = append(names, name)
	}
	f.update(f.settings("changed", "2"))
	for i := range pods / 2 {
		f.deletes(t, local["old-"+strconv.Itoa(i)], nil)
	}
	f.awaitBroken(t, f.there, lost, "the provider is gone")
	f.there.Break(faultproxy.TooManyRequests, everything)
	f.awaitBroken(t, f.there, answers, "the provider is busy")
	f.there.Heal()

	f.awaitRemote("changed", "2")
	for _, name := range names {
		f.awaitRuns(t, local[name], f.remoteAfter(t, name, ""))
	}
	for i := range pods {
		name := "old-" + strconv.Itoa(i)
		if i < pods/2 {
			f.endsAll(t, local[name], f.goes(t, name, 600))
			continue
		}
		f.awaitLocal(t, local[name], corev1.PodRunning)
		assert.Empty(t, local[name].Status.Reason)
		assert.Equal(t, uids[name], f.remoteAfter(t, name, "").UID, "%s ran all the time", name)
		names = append(names, name)
	}
	f.pairs(t, names...)
	require.NoError(t, f.rome.Delete(t.Context(), f.settings("changed", "")))
}

// lateLabel changes labels while the provider is gone: of one the virtual kubelet that tried
// to send it is killed, of the other there is none when it changes.
func (f *faults) lateLabel(t *testing.T) {
	tried, untried := f.runs(t, "tried"), f.runs(t, "untried")
	there := map[string]*corev1.Pod{"tried": f.remoteAfter(t, "tried", ""), "untried": f.remoteAfter(t, "untried", "")}
	set := func(name string) {
		require.NoError(t, f.rome.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}},
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"late":"x"}}}`))))
	}
	f.there.Break(faultproxy.Aborted, requests(http.MethodPatch, "shadowpods"))
	set("tried")
	f.awaitBroken(t, f.there, 2, "the label is tried again")
	f.restart(t, func() {
		f.there.Break(faultproxy.Aborted, everything)
		set("untried")
	})
	f.awaitBroken(t, f.there, 2, "the provider is gone when the virtual kubelet starts")
	f.there.Heal()
	for name, pod := range there {
		planetest.Until(t, func(t planetest.T) bool {
			shadow, now := &offloadingv1beta1.ShadowPod{}, &corev1.Pod{}
			require.NoError(t, f.milan.Get(t.Context(), client.ObjectKeyFromObject(pod), shadow))
			require.NoError(t, f.milan.Get(t.Context(), client.ObjectKeyFromObject(pod), now))
			require.Equal(t, pod.UID, now.UID)
			return shadow.Labels["late"] == "x" && now.Labels["late"] == "x"
		}, soon, tick, "the label of %s reaches the remote pod", name)
	}
	f.awaitLocal(t, tried, corev1.PodRunning)
	f.awaitLocal(t, untried, corev1.PodRunning)
	f.pairs(t, "tried", "untried")
}
