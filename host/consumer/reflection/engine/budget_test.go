package engine

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/kit/budget"
)

// clock is one that only the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// A provider that changes the status of a pod again and again has it written a few times. The newest status
// is written later, and other pods do not wait.
func TestAStatusThatChangesAllTheTimeIsWrittenSometimes(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"), localPod("shop", "db"))
	time0 := &clock{now: time.Now()}
	w := startWith(t, local, remote, func(o *Options) { o.Now = time0.Now }, pods{})
	w.awaitShadow(t, "shop-rome", "web")
	w.awaitShadow(t, "shop-rome", "db")

	there := localPod("shop-rome", "web")
	there.Labels = shadow(Input{}).Labels
	require.NoError(t, remote.Create(t.Context(), there))
	reports := func(name, reason string) func() bool {
		return func() bool {
			pod, ok := get(t.Context(), local.WithWatch, "shop", name, &corev1.Pod{})
			return ok && pod.Status.Reason == reason
		}
	}
	flips := 0
	flip := func() {
		flips++
		require.NoError(t, remote.Get(t.Context(), client.ObjectKeyFromObject(there), there))
		there.Status.Reason = strconv.Itoa(flips)
		require.NoError(t, remote.Status().Update(t.Context(), there))
	}
	for flips < budget.ObjectBurst-1 { // The label of the pod was a write, too.
		flip()
		require.Eventually(t, reports("web", strconv.Itoa(flips)), soon, tick, "the first statuses are written at once")
	}
	writes := local.count("patch/status Pod")
	for range 100 {
		flip()
	}
	require.Eventually(t, func() bool { return len(w.journal.all()) > 0 }, soon, tick, "the pod says why its status is late")
	assert.Equal(t, []string{"shop/web " + ReasonThrottled}, w.journal.all())

	quiet := localPod("shop-rome", "db")
	quiet.Labels = shadow(Input{}).Labels
	quiet.Status.Reason = "quiet"
	require.NoError(t, remote.Create(t.Context(), quiet))
	require.Eventually(t, reports("db", "quiet"), soon, tick, "another pod does not wait")
	assert.Equal(t, writes+1, local.count("patch/status Pod"))

	time0.move(budget.ObjectInterval + time.Second)
	require.Eventually(t, reports("web", strconv.Itoa(flips)), soon, tick, "the newest status is written without another event")
	assert.Equal(t, writes+2, local.count("patch/status Pod"))
	assert.Len(t, w.journal.all(), 1)
}
