package memory

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMemoryIsReleasedWhenABurstIsOver(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		live float64
		// allocated is what was allocated at the end of each period.
		allocated []float64
		want      []int // the periods after which memory is released
	}{
		"after the start":                    {100, []float64{300, 305, 306}, []int{1}},
		"not during a burst":                 {100, []float64{300, 301, 400, 500, 505}, []int{1, 4}},
		"not again when nothing happens":     {100, []float64{300, 300, 302, 304, 306, 308}, []int{1}},
		"when garbage has added up slowly":   {100, []float64{300, 300, 305, 310, 315, 319}, []int{1, 3}},
		"a process that is always busy":      {100, []float64{300, 310, 320, 330}, nil},
		"a small process that renews leases": {20, []float64{60, 64, 68, 70, 76}, []int{1, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Now())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			at := -1
			var released []int
			r := &Releaser{
				clock: clock, release: func() { released = append(released, at) },
				read: func() heap {
					at++
					return heap{allocated: test.allocated[at] * mib, live: test.live * mib}
				},
			}
			ended := make(chan error)
			go func() { ended <- r.Start(ctx) }()
			for range test.allocated {
				require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
				clock.Step(period)
			}
			require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
			cancel()
			require.NoError(t, <-ended)
			assert.Equal(t, test.want, released)
		})
	}
}

func TestTheHeapOfThisProcess(t *testing.T) {
	before := readHeap()
	kept := make([]byte, 64<<20)
	defer runtime.KeepAlive(kept)
	NewReleaser(clocktesting.NewFakeClock(time.Now())).release()
	after := readHeap()
	assert.GreaterOrEqual(t, after.allocated-before.allocated, float64(len(kept)))
	assert.GreaterOrEqual(t, after.live, float64(len(kept)))
}
