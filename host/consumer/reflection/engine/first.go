package engine

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

const (
	// firstPoll is how often an engine asks whether the informers are filled, and firstPolls how often at most:
	// a list that gets no answer must not stop the reflection of other namespaces.
	firstPoll, firstPolls = 100 * time.Millisecond, 300
)

// firstDecisions are the keys that an engine decides first after its start. They wait until the informers are
// filled: a decision of an object that has not changed since would take the time of reading the others from one
// that has, and only keys that wait together are sorted by their age.
type firstDecisions struct {
	waiting []firstDecision
	polls   int
	// isOver is set once they were queued. Later keys do not wait.
	isOver bool
}

type firstDecision struct {
	runner *runner
	key    Key
	age    uint64
}

// add queues a key, or lets it wait.
func (f *firstDecisions) add(d firstDecision) {
	if f.isOver {
		d.runner.queue.Add(d.key)
		return
	}
	f.waiting = append(f.waiting, d)
}

// next queues the keys, the youngest first, once no informer is unfilled. Until then it returns the channel of the next poll, nil
// when no key waits.
func (f *firstDecisions) next(unfilled int64) <-chan time.Time {
	switch {
	case len(f.waiting) == 0:
		return nil
	case unfilled > 0 && f.polls < firstPolls:
		return time.After(firstPoll)
	}
	slices.SortFunc(f.waiting, func(a, b firstDecision) int { return cmp.Compare(a.age, b.age) })
	for _, d := range f.waiting {
		d.runner.queue.Add(d.key)
	}
	f.waiting, f.isOver = nil, true
	return nil
}

// ages returns how long ago the local or the remote object of each local name changed, whichever is
// later: the names are those of visitKeys.
func (c *namespaceCaches) ages() map[string]uint64 {
	youngest := map[string]uint64{}
	c.local.ages(c.ns.local, nil, func(name string, age uint64) { youngest[name] = age })
	ofRemote := func(name string, age uint64) {
		name = c.runner.toLocal(name)
		if have, known := youngest[name]; !known || age < have {
			youngest[name] = age
		}
	}
	c.remote.ages("", c.remote.having, ofRemote)
	if c.dependent != nil {
		c.dependent.ages("", c.dependent.having, func(name string, age uint64) {
			if _, known := youngest[c.runner.toLocal(name)]; known {
				ofRemote(name, age)
			}
		})
	}
	return youngest
}

// ages calls visit with each object in a namespace, or in all for "", that has certain labels, and with its
// age: how many resource versions its server has issued since. That is about how long ago it changed,
// comparable between stores and servers as long as only an order depends on it.
func (s *store) ages(namespace string, having labelTexts, visit func(name string, age uint64)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	newest, _ := strconv.ParseUint(s.newest, 10, 64)
	for name, kept := range s.objects.in(namespace) {
		if !kept.hasLabels(having) {
			continue
		}
		version, err := strconv.ParseUint(kept.version, 10, 64)
		if err != nil || version > newest {
			version = newest // of unknown age, which counts as new
		}
		visit(name.Name, newest-version)
	}
}
