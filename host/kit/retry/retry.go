// Package retry says how soon what failed is tried again: the pauses of every queue, of
// controllers and of the reflection.
package retry

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Base and Max bound the pause before a key is tried again; it doubles each time. What is
// waited for, a quota with room, another cluster, an operator's correction, often makes no
// event here, and controller-runtime's own bound of 1,000 s is long for whoever waits.
const (
	Base = 100 * time.Millisecond
	Max  = 30 * time.Second
)

// Limiter returns the pauses of one queue. Each key has its own: there is no bucket over all
// of them, since after an outage each would queue behind all others.
func Limiter[K comparable]() workqueue.TypedRateLimiter[K] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[K](Base, Max)
}

// Pause waits for a loop's next round, or reports false when the context ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
