package quota

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// watched is what a replica knows of a Quota of 4 CPUs, all of which a ShadowPod uses.
type watched struct {
	t       *testing.T
	e       *Enforcer
	clock   *clocktesting.FakeClock
	account *Account
	shadow  *offloadingv1beta1.ShadowPod
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	e, _ := replicaOf(newQuota())
	w := &watched{t: t, e: e, clock: e.Clock.(*clocktesting.FakeClock), account: e.Account}
	w.shadow = w.create("web", "5")
	return w
}

// create admits and stores a ShadowPod of 4 CPUs.
func (w *watched) create(name, version string) *offloadingv1beta1.ShadowPod {
	w.t.Helper()
	require.NoError(w.t, w.admit(name))
	shadow := created(name, "4")
	shadow.ResourceVersion = version
	w.account.handle(shadow, w.account.observe)
	return shadow
}

func (w *watched) admit(name string) error {
	return w.e.Admit(w.t.Context(), testUser, nil, created(name, "4"), false)
}

func (w *watched) denied(name string) {
	w.t.Helper()
	var denied *Denied
	require.ErrorAs(w.t, w.admit(name), &denied)
	assert.Contains(w.t, denied.Reason, "used cpu=4")
}

// confirm writes what the manager writes: what pods hold whose ShadowPods are gone.
func (w *watched) confirm(version, cpu string) {
	w.t.Helper()
	quota := stored(w.t, w.e)
	quota.Status.Ending, quota.Status.EndingResourceVersion = list(cpu, 1), version
	require.NoError(w.t, w.e.Client.Status().Update(w.t.Context(), quota))
}

// A consumer deletes its ShadowPod, whose pod takes its time, and creates another one at once, again and again.
func TestADeletedShadowPodCountsUntilItsPodIsKnownToEnd(t *testing.T) {
	w := newWatched(t)
	deleted := w.shadow.DeepCopy()
	deleted.ResourceVersion = "7"
	w.account.handleDeletion(deleted)
	w.denied("again")
	require.True(t, equal(list("4", 1), w.account.users[testUser].ending))

	w.confirm("6", "0")
	w.denied("again") // What the manager has seen is older than the deletion.
	w.confirm("7", "4")
	w.denied("again")
	w.confirm("7", "0")
	again := w.create("again", "9")

	again.ResourceVersion = "11"
	w.account.handleDeletion(again)
	w.denied("third")
	w.clock.Step(reservationLifetime - time.Second)
	w.denied("third")
	w.clock.Step(2 * time.Second) // No manager of this version runs.
	require.NoError(t, w.admit("third"))
}

// After a broken watch, nobody knows in which version a ShadowPod was deleted.
func TestADeletionInAnUnknownVersionIsNotConfirmed(t *testing.T) {
	for name, remove := range map[string]func(*watched){
		"the informer lists again": func(w *watched) {
			w.account.handleDeletion(toolscache.DeletedFinalStateUnknown{Obj: w.shadow.DeepCopy()})
		},
		"the replica lists the user's": func(w *watched) { w.account.replace(testUser, nil, 6, w.clock.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t)
			remove(w)
			w.confirm("100", "0")
			w.denied("again")
			w.clock.Step(reservationLifetime + time.Second)
			require.NoError(t, w.admit("again"))
		})
	}
}

// A ShadowPod that has finished has no pod that uses something, and one event may come twice.
func TestWhatDeletedShadowPodsHeldIsCountedOnce(t *testing.T) {
	w := newWatched(t)
	w.account.handleDeletion(w.shadow)
	w.account.handleDeletion(w.shadow)
	w.account.remove(w.shadow, true)
	usage := w.account.users[testUser]
	assert.True(t, equal(list("4", 1), usage.ending))
	assert.Empty(t, usage.sum)
	usage.settle(5, w.clock.Now())
	assert.Empty(t, usage.ending)
	assert.Empty(t, usage.ended)

	finished := observedAs(testUser, "job", "20")
	finished.Status.Phase = "Succeeded"
	w.account.observe(finished)
	w.account.remove(finished, true)
	assert.Empty(t, usage.ending)
	assert.Empty(t, usage.ended)

	w.account.observe(observedAs(testUser, "api", "21"))
	w.account.remove(observedAs(testUser, "api", "22"), true)
	w.clock.Step(reservationLifetime + time.Second)
	w.account.observe(observedAs("another", "web", "23"))
	w.account.remove(observedAs("another", "web", "24"), true)
	assert.NotContains(t, w.account.users, testUser, "it is forgotten with what it held")
}
