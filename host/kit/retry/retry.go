// Package retry defines the backoff of the queues of controllers and of the reflection.
package retry

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Base and Max are the first and the longest backoff of a key, which doubles each time. Many
// failures end without an event in this cluster (a quota, another cluster), so that Max is
// shorter than the 1,000 s of controller-runtime.
const (
	Base = 100 * time.Millisecond
	Max  = 30 * time.Second
)

// Limiter returns the rate limiter of a queue. Each key has its own backoff. There is no bucket
// for all keys, which would delay each key by all others after an outage.
func Limiter[K comparable]() workqueue.TypedRateLimiter[K] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[K](Base, Max)
}

// Pause waits for the duration. It returns false if the context ends first.
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
