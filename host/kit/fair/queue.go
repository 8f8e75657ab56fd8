// Package fair gives controllers a queue in which peers take turns. A controller that several peers
// share would otherwise work through what one of them has queued before it turns to the next.
//
// The queue is that of client-go, with its delays and its backoff, and another order: the keys of the
// same peer are in line behind each other, and each peer's line has a turn before any has a second one.
// Within a line, keys that only a start or a resync has queued wait for those that changed, as in the
// priority queue of controller-runtime.
package fair

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// Options returns the options of a controller with a number of workers whose queue serves peers in
// turns. reader reads namespaces from the manager's cache.
func Options(reader client.Reader, workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             retry.Limiter[reconcile.Request](),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return newQueue(name, limiter, func(key reconcile.Request) string { return peerOf(reader, key) }, clock.RealClock{})
		},
	}
}

// peerOf returns the peer of a key: the cluster that a label of the namespace names. No peer can write
// the labels of namespaces. A namespace without the label counts as a peer of its own, and so does each
// key without a namespace.
func peerOf(reader client.Reader, key reconcile.Request) string {
	if key.Namespace == "" {
		return "/" + key.Name
	}
	namespace := &corev1.Namespace{}
	// The error is that of a namespace that is gone or not yet in the cache.
	if err := reader.Get(context.Background(), client.ObjectKey{Name: key.Namespace}, namespace); err == nil { //nolint:forbidigo // A queue has no context, and the cache answers at once.
		if peer := namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel]; peer != "" {
			return peer
		}
	}
	return "/" + key.Namespace
}

// queue is a priorityqueue.PriorityQueue with two priorities: that of [handler.LowPriority], and all
// others. Its embedded queue takes items in the order of turns.
type queue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]
	turns *turns[T]
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = &queue[reconcile.Request]{}

func newQueue[T comparable](name string, limiter workqueue.TypedRateLimiter[T], peer func(T) string, clk clock.WithTicker) *queue[T] {
	order := newTurns(peer)
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Clock: clk, Queue: order})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Clock: clk, Queue: inner})
	return &queue[T]{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{DelayingQueue: delaying}),
		turns:                      order,
	}
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *queue[T]) AddWithOpts(o priorityqueue.AddOpts, items ...T) {
	for _, item := range items {
		q.turns.mark(item, o.Priority == nil || *o.Priority > handler.LowPriority)
		switch {
		case o.RateLimited:
			q.TypedRateLimitingInterface.AddRateLimited(item)
		default:
			q.TypedRateLimitingInterface.AddAfter(item, o.After)
		}
	}
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *queue[T]) GetWithPriority() (item T, priority int, shutdown bool) {
	item, shutdown = q.TypedRateLimitingInterface.Get()
	if !shutdown && !q.turns.take(item) {
		priority = handler.LowPriority
	}
	return item, priority, shutdown
}

// Get implements workqueue.TypedInterface.
func (q *queue[T]) Get() (item T, shutdown bool) {
	item, _, shutdown = q.GetWithPriority()
	return item, shutdown
}

// Add implements workqueue.TypedInterface.
func (q *queue[T]) Add(item T) { q.AddWithOpts(priorityqueue.AddOpts{}, item) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *queue[T]) AddAfter(item T, duration time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: duration}, item)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *queue[T]) AddRateLimited(item T) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, item)
}
