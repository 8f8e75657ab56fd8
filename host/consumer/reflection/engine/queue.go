package engine

import (
	"cmp"
	"container/heap"
	"sync"
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
	// laneFirst holds keys that are decided for the first time since their namespace is reflected, those
	// that changed last before the others: after a restart, what changed meanwhile does not wait
	// for all that did not.
	laneFirst
	// laneBackground holds keys that are decided again although no object changed. It
	// waits behind the other lanes, but for one turn in backgroundEvery.
	laneBackground
	lanesCount
)

// firstEvery and backgroundEvery are how often, at least, laneFirst and laneBackground have a turn.
const firstEvery, backgroundEvery = 4, 16

// queue is a rate-limited work queue with lanes. A key waits in one lane and is handled by
// one worker at a time.
type queue struct {
	workqueue.TypedRateLimitingInterface[Key]
	lanes *lanes
}

func newQueue(name string, now func() time.Time) *queue {
	l := &lanes{now: now, queued: map[Key]place{}, hints: map[Key]hint{}, taken: map[Key]place{}}
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
	q.lanes.hint(key, hint{lane: in})
	q.Add(key)
}

// AddFirst adds a key to laneFirst. age is how long ago it changed, in resource versions.
func (q *queue) AddFirst(key Key, age uint64) {
	q.lanes.hint(key, hint{lane: laneFirst, age: age})
	q.Add(key)
}

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

// hint is the lane to which a key will be added, and its age in laneFirst.
type hint struct {
	lane lane
	age  uint64
}

// entry is a key in a lane; the lowest turn is the next.
type entry struct {
	turn uint64
	key  Key
}

// entries implement heap.Interface.
type entries []entry

func (e entries) Len() int           { return len(e) }
func (e entries) Less(i, j int) bool { return cmp.Less(e[i].turn, e[j].turn) }
func (e entries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push is called by package heap.
func (e *entries) Push(added any) {
	if added, ok := added.(entry); ok {
		*e = append(*e, added)
	}
}

// Pop is called by package heap.
func (e *entries) Pop() any {
	last := len(*e) - 1
	popped := (*e)[last]
	if *e = (*e)[:last]; last == 0 {
		*e = nil // frees the array
	}
	return popped
}

// lanes implements workqueue.Queue. The queue calls all its methods under its own lock,
// except hint and takeHint.
type lanes struct {
	now func() time.Time
	// keys of each lane. An entry whose key has moved to another lane is skipped.
	keys [lanesCount]entries
	// queued holds every waiting key.
	queued map[Key]place
	// pushes and pops are counted.
	pushes, pops uint64

	mu    sync.Mutex
	hints map[Key]hint
	taken map[Key]place
}

func (l *lanes) hint(key Key, h hint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, hinted := l.hints[key]; !hinted || h.lane < before.lane {
		l.hints[key] = h
	}
}

func (l *lanes) takeHint(key Key) hint {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, hinted := l.hints[key]
	delete(l.hints, key)
	if !hinted {
		return hint{lane: laneRemote}
	}
	return h
}

// append adds a key to a lane: keys are handled in the order of their ages in laneFirst, and of
// their arrival in the others.
func (l *lanes) append(key Key, h hint) {
	l.pushes++
	turn := l.pushes
	if h.lane == laneFirst {
		turn = h.age
	}
	heap.Push(&l.keys[h.lane], entry{turn, key})
}

// Touch implements workqueue.Queue: a queued key that is added again may move to a better
// lane.
func (l *lanes) Touch(key Key) {
	p, queued := l.queued[key]
	if !queued {
		return // it is being handled, and its hint is for the Push that follows
	}
	if h := l.takeHint(key); h.lane < p.lane {
		p.lane = h.lane
		l.queued[key] = p
		l.append(key, h)
	}
}

// Push implements workqueue.Queue.
func (l *lanes) Push(key Key) {
	h := l.takeHint(key)
	l.queued[key] = place{lane: h.lane, since: l.now()}
	l.append(key, h)
}

// Len implements workqueue.Queue.
func (l *lanes) Len() int { return len(l.queued) }

// Pop implements workqueue.Queue. The queue calls it only when Len is not zero.
func (l *lanes) Pop() Key {
	l.pops++
	order := [lanesCount]lane{laneLocal, laneRemote, laneFirst, laneBackground}
	switch {
	case l.pops%backgroundEvery == 0:
		order = [lanesCount]lane{laneBackground, laneFirst, laneRemote, laneLocal}
	case l.pops%firstEvery == 0:
		order = [lanesCount]lane{laneFirst, laneRemote, laneLocal, laneBackground}
	case l.pops%2 == 0:
		order = [lanesCount]lane{laneRemote, laneLocal, laneFirst, laneBackground}
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
		popped, _ := heap.Pop(&l.keys[in]).(entry)
		key := popped.key
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
