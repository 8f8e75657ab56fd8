package engine

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/longshore-dev/longshore/host/kit/retry"
)

// normalEvery is how often, at least, a key of the normal lane is taken while the urgent one
// is not empty.
const normalEvery = 8

// queue is a rate-limited work queue with two lanes. What changed in the consumer is
// urgent: in a burst, a new pod that is not sent yet runs nowhere, while one whose status
// is late runs all the same. A key is never handled by two workers at once.
type queue struct {
	workqueue.TypedRateLimitingInterface[Key]
	lanes *lanes
}

func newQueue(name string, now func() time.Time) *queue {
	l := &lanes{now: now, queued: map[Key]place{}, hints: map[Key]struct{}{}, taken: map[Key]place{}}
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{Name: name, Queue: l})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{Name: name, Queue: inner})
	return &queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(retry.Limiter[Key](),
			workqueue.TypedRateLimitingQueueConfig[Key]{Name: name, DelayingQueue: delaying}),
		lanes: l,
	}
}

// AddUrgent adds a key to the urgent lane.
func (q *queue) AddUrgent(key Key) {
	q.lanes.hint(key)
	q.Add(key)
}

// Taken returns where and since when a key waited that a worker has taken.
func (q *queue) Taken(key Key) (urgent bool, since time.Time) {
	q.lanes.mu.Lock()
	defer q.lanes.mu.Unlock()
	p := q.lanes.taken[key]
	delete(q.lanes.taken, key)
	return p.urgent, p.since
}

// place is where a key waits, and since when.
type place struct {
	urgent bool
	since  time.Time
}

// lanes implements workqueue.Queue. All its methods are called under the queue's own
// lock, hint and takeHint aside.
type lanes struct {
	now            func() time.Time
	urgent, normal []Key
	// queued holds every waiting key. An entry of normal whose key has moved on is
	// skipped when it is met.
	queued map[Key]place
	pops   int

	mu    sync.Mutex
	hints map[Key]struct{}
	taken map[Key]place
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
	p, queued := l.queued[key]
	// The hint of a key that is being handled waits for its Push; any other is used up here.
	if queued && l.takeHint(key) && !p.urgent {
		p.urgent = true
		l.queued[key] = p
		l.urgent = append(l.urgent, key)
	}
}

// Push implements workqueue.Queue.
func (l *lanes) Push(key Key) {
	urgent := l.takeHint(key)
	l.queued[key] = place{urgent: urgent, since: l.now()}
	if urgent {
		l.urgent = append(l.urgent, key)
		return
	}
	l.normal = append(l.normal, key)
}

// Len implements workqueue.Queue.
func (l *lanes) Len() int { return len(l.queued) }

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
			if p, queued := l.queued[key]; queued && p.urgent == (from == &l.urgent) {
				delete(l.queued, key)
				l.mu.Lock()
				l.taken[key] = p
				l.mu.Unlock()
				return key
			}
		}
	}
	return Key{}
}
