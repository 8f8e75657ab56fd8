package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/longshore-dev/longshore/host/kit/retry"
)

// lane is where a key waits. Lower values are preferred when a key is added to several.
type lane int

const (
	// laneLocal holds keys whose local object changed, as in a burst of new pods.
	laneLocal lane = iota
	// laneRemote holds keys whose remote object changed, and retries. It gets every second
	// turn, so that the status of running pods does not wait behind a burst of new ones.
	laneRemote
	// laneBackground holds keys that are decided again although no object changed. It
	// waits behind the other lanes, but for one turn in backgroundEvery.
	laneBackground
	lanesCount
)

// backgroundEvery is how often, at least, laneBackground has a turn.
const backgroundEvery = 16

// queue is a rate-limited work queue with lanes. A key waits in one lane and is handled by
// one worker at a time.
type queue struct {
	workqueue.TypedRateLimitingInterface[Key]
	lanes *lanes
	// underway is how many keys workers have taken and not yet done.
	underway atomic.Int64
}

func newQueue(name string, now func() time.Time) *queue {
	l := &lanes{now: now, queued: map[Key]place{}, hints: map[Key]lane{}, taken: map[Key]place{}}
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{Name: name, Queue: l})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{Name: name, Queue: inner})
	return &queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(retry.Limiter[Key](),
			workqueue.TypedRateLimitingQueueConfig[Key]{Name: name, DelayingQueue: delaying}),
		lanes: l,
	}
}

// AddTo adds a key to a lane. Add without a lane adds it to laneRemote.
func (q *queue) AddTo(in lane, key Key) {
	q.lanes.hint(key, in)
	q.Add(key)
}

// Get takes a key, which is done with Done.
func (q *queue) Get() (key Key, shutdown bool) {
	key, shutdown = q.TypedRateLimitingInterface.Get()
	if !shutdown {
		q.underway.Add(1)
	}
	return key, shutdown
}

// Done is called for each key that Get has returned.
func (q *queue) Done(key Key) {
	q.underway.Add(-1)
	q.TypedRateLimitingInterface.Done(key)
}

// isBusy returns true while keys wait for a worker, or a worker has one.
func (q *queue) isBusy() bool { return q.Len() > 0 || q.underway.Load() > 0 }

// Taken returns in which lane, and since when, a key waited that a worker has taken.
func (q *queue) Taken(key Key) (in lane, since time.Time) {
	q.lanes.mu.Lock()
	defer q.lanes.mu.Unlock()
	p := q.lanes.taken[key]
	delete(q.lanes.taken, key)
	return p.lane, p.since
}

// place is where a key waits, and since when.
type place struct {
	lane  lane
	since time.Time
}

// lanes implements workqueue.Queue. The queue calls all its methods under its own lock,
// except hint and takeHint.
type lanes struct {
	now func() time.Time
	// keys of each lane. An entry whose key has moved to another lane is skipped.
	keys [lanesCount][]Key
	// queued holds every waiting key.
	queued map[Key]place
	pops   int

	mu    sync.Mutex
	hints map[Key]lane
	taken map[Key]place
}

func (l *lanes) hint(key Key, in lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, hinted := l.hints[key]; !hinted || in < before {
		l.hints[key] = in
	}
}

func (l *lanes) takeHint(key Key) lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	in, hinted := l.hints[key]
	delete(l.hints, key)
	if !hinted {
		return laneRemote
	}
	return in
}

// Touch implements workqueue.Queue: a queued key that is added again may move to a better
// lane.
func (l *lanes) Touch(key Key) {
	p, queued := l.queued[key]
	if !queued {
		return // it is being handled, and its hint is for the Push that follows
	}
	if in := l.takeHint(key); in < p.lane {
		p.lane = in
		l.queued[key] = p
		l.keys[in] = append(l.keys[in], key)
	}
}

// Push implements workqueue.Queue.
func (l *lanes) Push(key Key) {
	in := l.takeHint(key)
	l.queued[key] = place{lane: in, since: l.now()}
	l.keys[in] = append(l.keys[in], key)
}

// Len implements workqueue.Queue.
func (l *lanes) Len() int { return len(l.queued) }

// Pop implements workqueue.Queue. The queue calls it only when Len is not zero.
func (l *lanes) Pop() Key {
	l.pops++
	order := [lanesCount]lane{laneLocal, laneRemote, laneBackground}
	switch {
	case l.pops%backgroundEvery == 0:
		order = [lanesCount]lane{laneBackground, laneRemote, laneLocal}
	case l.pops%2 == 0:
		order = [lanesCount]lane{laneRemote, laneLocal, laneBackground}
	}
	for _, in := range order {
		if key, found := l.popFrom(in); found {
			return key
		}
	}
	return Key{}
}

func (l *lanes) popFrom(in lane) (Key, bool) {
	for len(l.keys[in]) > 0 {
		key := l.keys[in][0]
		l.keys[in] = l.keys[in][1:]
		if len(l.keys[in]) == 0 {
			l.keys[in] = nil // frees the array
		}
		p, queued := l.queued[key]
		if !queued || p.lane != in {
			continue
		}
		delete(l.queued, key)
		l.mu.Lock()
		l.taken[key] = p
		l.mu.Unlock()
		return key, true
	}
	return Key{}, false
}
