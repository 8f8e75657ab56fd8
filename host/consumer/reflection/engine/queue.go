package engine

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/longshore-dev/longshore/host/kit/retry"
)

// lane is why a key is queued.
type lane int

const (
	// laneLocal is for keys whose local object changed, as in a burst of new pods.
	laneLocal lane = iota
	// laneRemote is for keys whose remote object changed, and for retries.
	laneRemote
	// laneBackground is for keys that are decided although no object changed: all those of a namespace after
	// a restart, after a change of policies, and in each resync. They wait while there are others.
	laneBackground
)

// queue is a rate-limited work queue. A key is handled by one worker at a time.
type queue struct {
	priorityqueue.PriorityQueue[Key]
	now func() time.Time

	mu sync.Mutex
	// waiting are the keys that were added to a lane and that no worker has taken.
	waiting map[Key]place
}

// place is where a key waits, and since when.
type place struct {
	lane  lane
	since time.Time
}

func newQueue(name string, now func() time.Time) *queue {
	return &queue{
		PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[Key]) { o.RateLimiter = retry.Limiter[Key]() }),
		now:           now, waiting: map[Key]place{},
	}
}

// AddTo adds a key to a lane. A key that waits already moves to a better one.
func (q *queue) AddTo(in lane, key Key) {
	q.mu.Lock()
	p, waits := q.waiting[key]
	if !waits {
		p = place{in, q.now()}
	}
	p.lane = min(p.lane, in)
	q.waiting[key] = p
	q.mu.Unlock()
	priority := 0
	if in == laneBackground {
		priority = handler.LowPriority
	}
	q.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, key)
}

// Add adds a key to laneRemote.
func (q *queue) Add(key Key) { q.AddTo(laneRemote, key) }

// Taken returns in which lane, and since when, a key waited that a worker has taken. A retry has waited since
// now.
func (q *queue) Taken(key Key) (in lane, since time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, known := q.waiting[key]
	delete(q.waiting, key)
	if !known {
		return laneRemote, q.now()
	}
	return p.lane, p.since
}
