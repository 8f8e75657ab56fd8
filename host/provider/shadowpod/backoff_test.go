package shadowpod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

// TestAPodThatDoesNotLastIsCreatedEverMoreSeldom deletes each pod as soon as it exists, as an
// eviction or a controller of the provider does.
func TestAPodThatDoesNotLastIsCreatedEverMoreSeldom(t *testing.T) {
	s := shadow(nil)
	c := fakeclient.Builder(s).Build()
	clock := testclock.NewFakeClock(noon)
	r := &Reconciler{Client: c, APIReader: c, Events: &events.FakeRecorder{}, Clock: clock}
	key := client.ObjectKeyFromObject(s)
	// step reconciles, and reports whether that created a pod, which lasts for some time.
	step := func(lasts time.Duration) (bool, time.Duration) {
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
		pod := &corev1.Pod{}
		if err := c.Get(t.Context(), key, pod); err != nil {
			require.NoError(t, client.IgnoreNotFound(err))
			return false, result.RequeueAfter
		}
		clock.Step(lasts)
		require.NoError(t, c.Delete(t.Context(), pod))
		return true, 0
	}
	created := func(lasts time.Duration) bool { done, _ := step(lasts); return done }
	within := func(d time.Duration) (pods int) {
		for end := clock.Now().Add(d); clock.Now().Before(end); {
			done, wait := step(0)
			if done {
				pods++
				continue
			}
			require.Positive(t, wait)
			current := shadow(nil)
			require.NoError(t, c.Get(t.Context(), key, current))
			assert.Equal(t, offloadingv1beta1.FailedCreatePodReason, current.Status.Reason)
			assert.Equal(t, "the provider's cluster has deleted each of its last pods soon after its creation; the next one is created at "+
				clock.Now().Add(wait).UTC().Format(time.RFC3339), current.Status.Message, "the consumer sees why nothing runs, and how long")
			clock.Step(wait)
		}
		return pods
	}
	assert.True(t, created(time.Minute))
	assert.True(t, created(0), "the first one that follows is created at once")
	assert.Equal(t, 4, within(40*time.Second), "after 2, 4, 8 and 16 s")
	assert.LessOrEqual(t, within(time.Hour), 16, "one in five minutes")

	clock.Step(longestPause)
	require.True(t, created(2*longestPause), "a pod that lasts begins anew")
	require.True(t, created(0))
	assert.Equal(t, 5, within(40*time.Second), "after 1, 2, 4, 8 and 16 s")

	// A ShadowPod of the same name that is another one has no pause.
	require.NoError(t, c.Delete(t.Context(), s))
	created(0)
	next := shadow(nil)
	next.UID = "shadow-2"
	require.NoError(t, c.Create(t.Context(), next))
	assert.True(t, created(0))
}
