package engine

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

const (
	// firstPoll is the time between two looks whether more of the first keys may be queued, and maxFirstPolls their
	// number: neither a list that gets no answer nor a queue that is never empty must stop the reflection of the others.
	firstPoll, maxFirstPolls = 100 * time.Millisecond, 300
	// firstPortion is how many keys of a resource are queued at once. The next portion is twice as large, and so on.
	firstPortion = 8
)

// firstDecisions are the keys of a resource that are decided first after the start of an engine. They wait until the
// informers are filled, and are queued by their age, in portions: a decision of an object that has not changed since
// would take the time of one that has, which may not be read yet, or belong to another engine of this process.
type firstDecisions struct {
	waiting []firstDecision
	// portion is how many keys were taken last.
	portion int
	// isOver is set once all were taken. Later keys do not wait.
	isOver bool
}

type firstDecision struct {
	key Key
	age uint64
}

// take returns the next portion, the youngest keys first, or all keys that are left.
func (f *firstDecisions) take(all bool) []firstDecision {
	f.portion = max(firstPortion, 2*f.portion)
	if all || f.portion > len(f.waiting) {
		f.portion = len(f.waiting)
	}
	slices.SortFunc(f.waiting, func(a, b firstDecision) int { return cmp.Compare(a.age, b.age) })
	taken := f.waiting[:f.portion]
	if f.waiting = f.waiting[f.portion:]; len(f.waiting) == 0 {
		f.waiting, f.isOver = nil, true
	}
	return taken
}

// decideFirst queues a key, or lets it wait.
func (r *runner) decideFirst(d firstDecision) {
	if r.first.isOver {
		r.queue.Add(d.key)
		return
	}
	r.first.waiting = append(r.first.waiting, d)
}

// queueFirst queues first keys of all resources, unless informers are being filled, or the workers of the resource
// are busy with others. It returns the channel of the next poll, nil when no key waits.
func (e *Engine) queueFirst() (poll <-chan time.Time) {
	isLate := e.firstPolls >= maxFirstPolls
	isFilling := e.informers.unfilled.Load() > 0
	waits := false
	for _, r := range e.runners {
		if len(r.first.waiting) > 0 && (isLate || !isFilling && !r.queue.isBusy()) {
			for _, d := range r.first.take(isLate) {
				r.queue.Add(d.key)
			}
		}
		waits = waits || len(r.first.waiting) > 0
	}
	if !waits {
		return nil
	}
	return time.After(firstPoll)
}

// ages returns how long ago the local or the remote object of each local name changed, whichever is
// later: the names are those of visitKeys.
func (c *namespaceCaches) ages() map[string]uint64 {
	youngest := map[string]uint64{}
	c.local.ages(c.ns.local, func(name string, age uint64) { youngest[name] = age })
	ofRemote := func(name string, age uint64) {
		name = c.runner.toLocal(name)
		if have, known := youngest[name]; !known || age < have {
			youngest[name] = age
		}
	}
	c.remote.ages("", ofRemote)
	if c.dependent != nil {
		c.dependent.ages("", func(name string, age uint64) {
			if _, known := youngest[c.runner.toLocal(name)]; known {
				ofRemote(name, age)
			}
		})
	}
	return youngest
}

// ages calls visit with each object in a namespace, or in all for "", and with its
// age: how many resource versions its server has issued since. That is about how long ago it changed,
// comparable between stores and servers as long as only an order depends on it.
func (s *store) ages(namespace string, visit func(name string, age uint64)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	newest, _ := strconv.ParseUint(s.newest, 10, 64)
	for name, kept := range s.objects.in(namespace) {
		version, err := strconv.ParseUint(kept.version, 10, 64)
		if err != nil || version > newest {
			version = newest // of unknown age, which counts as new
		}
		visit(name.Name, newest-version)
	}
}
