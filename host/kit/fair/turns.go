package fair

import "sync"

// turns is the order of a queue: one item of each peer, then the next of each. It implements
// workqueue.Queue, whose methods are called one at a time; mark and take may be called meanwhile.
type turns[T comparable] struct {
	peer func(T) string

	mutex sync.Mutex
	// marks are the items that are about to be added, or are queued: true for those that do not wait
	// for the others of their peer.
	marks map[T]bool
	// resting are the items that were popped and may wait again when they are added again.
	resting map[T]bool
	// queued are the items of all lines, with their places.
	queued map[T]place
	lines  map[string]*line[T]
	// order are the peers whose lines have items; the first has the next turn.
	order []string
}

// place is where an item is queued.
type place struct {
	peer   string
	urgent bool
}

// line is what is queued for one peer. An item that is in both parts, or was popped, is skipped.
type line[T comparable] struct {
	urgent, rest []T
	length       int
}

func newTurns[T comparable](peer func(T) string) *turns[T] {
	return &turns[T]{peer: peer, marks: map[T]bool{}, resting: map[T]bool{}, queued: map[T]place{}, lines: map[string]*line[T]{}}
}

// mark records how urgent the next addition of an item is. An item stays urgent until it is popped.
func (t *turns[T]) mark(item T, urgent bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.marks[item] = t.marks[item] || urgent
}

// isUrgent reports whether an item is urgent, as all without a mark are.
func (t *turns[T]) isUrgent(item T) bool {
	urgent, marked := t.marks[item]
	return urgent || !marked
}

// take reports whether an item that was popped was urgent.
func (t *turns[T]) take(item T) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	resting := t.resting[item]
	delete(t.resting, item)
	return !resting
}

// Push implements workqueue.Queue.
func (t *turns[T]) Push(item T) {
	peer := t.peer(item)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	own := t.lines[peer]
	if own == nil {
		own = &line[T]{}
		t.lines[peer] = own
		t.order = append(t.order, peer)
	}
	t.queued[item] = place{peer: peer, urgent: t.isUrgent(item)}
	own.length++
	if t.queued[item].urgent {
		own.urgent = append(own.urgent, item)
	} else {
		own.rest = append(own.rest, item)
	}
}

// Touch implements workqueue.Queue. An item that has become urgent does not wait any longer.
func (t *turns[T]) Touch(item T) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	at, queued := t.queued[item]
	if !queued || at.urgent || !t.isUrgent(item) {
		return
	}
	at.urgent = true
	t.queued[item] = at
	own := t.lines[at.peer]
	own.urgent = append(own.urgent, item)
}

// Len implements workqueue.Queue.
func (t *turns[T]) Len() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return len(t.queued)
}

// Pop implements workqueue.Queue.
func (t *turns[T]) Pop() T {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	peer := t.order[0]
	t.order = t.order[1:]
	own := t.lines[peer]
	item := t.next(peer, own)
	if !t.isUrgent(item) {
		t.resting[item] = true
	}
	delete(t.queued, item)
	delete(t.marks, item)
	if own.length--; own.length > 0 {
		t.order = append(t.order, peer)
	} else {
		delete(t.lines, peer)
	}
	return item
}

// next removes the first item that is still queued from a peer's line.
func (t *turns[T]) next(peer string, own *line[T]) T {
	for {
		part := &own.urgent
		if len(*part) == 0 {
			part = &own.rest
		}
		item := (*part)[0]
		*part = (*part)[1:]
		if at, queued := t.queued[item]; queued && at.peer == peer {
			return item
		}
	}
}
