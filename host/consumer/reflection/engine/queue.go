package engine

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const (
	// retryBase and retryMax bound the pause before a failed key is tried again; it
	// doubles each time. There is no bucket over all keys: after an outage every pod
	// is a few seconds away from its next try, not queued behind the others.
	retryBase = 100 * time.Millisecond
	retryMax  = 30 * time.Second
	// normalEvery is how often, at least, a key of the normal lane is taken while the
	// urgent one is not empty.
	normalEvery = 8
)

// queue is a rate-limited work queue with two lanes. Status that comes back from the
// provider overtakes the backlog of a burst of new pods, which it would otherwise wait
// behind. A key is never handled by two workers at once.
type queue struct {
	workqueue.TypedRateLimitingInterface[Key]
	lanes *lanes
}

func newQueue(name string) *queue {
	l := &lanes{lane: map[Key]bool{}, hints: map[Key]struct{}{}}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[Key](retryBase, retryMax)
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{Name: name, Queue: l})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{Name: name, Queue: inner})
	return &queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[Key]{Name: name, DelayingQueue: delaying}),
		lanes: l,
	}
}

// AddUrgent adds a key to the urgent lane.
func (q *queue) AddUrgent(key Key) {
	q.lanes.hint(key)
	q.Add(key)
}

// lanes implements workqueue.Queue. All methods but hint are called under the queue's
// own lock.
type lanes struct {
	urgent, normal []Key
	// lane holds every queued key; true means urgent. An entry of normal whose key has
	// moved on is skipped when it is met.
	lane map[Key]bool
	pops int

	mu    sync.Mutex
	hints map[Key]struct{}
}

func (l *lanes) hint(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hints[key] = struct{}{}
}

func (l *lanes) takeHint(key Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, urgent := l.hints[key]
	delete(l.hints, key)
	return urgent
}

// Touch implements workqueue.Queue: a queued key that is added again may become urgent.
func (l *lanes) Touch(key Key) {
	if urgent, queued := l.lane[key]; queued && !urgent && l.takeHint(key) {
		l.lane[key] = true
		l.urgent = append(l.urgent, key)
	}
}

// Push implements workqueue.Queue.
func (l *lanes) Push(key Key) {
	urgent := l.takeHint(key)
	l.lane[key] = urgent
	if urgent {
		l.urgent = append(l.urgent, key)
		return
	}
	l.normal = append(l.normal, key)
}

// Len implements workqueue.Queue.
func (l *lanes) Len() int { return len(l.lane) }

// Pop implements workqueue.Queue. It is called only when Len is not zero.
func (l *lanes) Pop() Key {
	l.pops++
	order := [2]*[]Key{&l.urgent, &l.normal}
	if l.pops%normalEvery == 0 {
		order[0], order[1] = order[1], order[0]
	}
	for _, from := range order {
		for len(*from) > 0 {
			key := (*from)[0]
			*from = (*from)[1:]
			if len(*from) == 0 {
				*from = nil
			}
			if urgent, queued := l.lane[key]; queued && urgent == (from == &l.urgent) {
				delete(l.lane, key)
				return key
			}
		}
	}
	return Key{}
}
