package chain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// snapshot holds the links of all points between two calls of [Chains.Swap]. It is immutable
// except for its counters.
type snapshot struct {
	chains   map[contract.Point][]*link
	policies map[Policy]struct{}

	// evaluations that use the snapshot.
	evaluations atomic.Int64
	replaced    atomic.Bool
	retired     atomic.Bool
}

// BindingError reports which binding cannot be used and why.
type BindingError struct {
	Binding string
	Point   contract.Point
	Err     error
}

// Error implements error.
func (e *BindingError) Error() string {
	return fmt.Sprintf("binding policy %q at %s: %v", e.Binding, e.Point, e.Err)
}

// Unwrap returns the cause.
func (e *BindingError) Unwrap() error { return e.Err }

// ConflictError reports that the order of two policies matters at a path and is not set.
// Second is the later binding in the list given to [Chains.Swap].
type ConflictError struct {
	Point         contract.Point
	Path          string
	First, Second string
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("policies %q and %q both write %s at %s: an operator must give them different values of spec.order, or narrow one with spec.allow",
		e.First, e.Second, e.Path, e.Point)
}

// Check returns the error that [Chains.Swap] would return for these bindings.
func Check(bindings []Binding) error {
	_, err := newSnapshot(bindings)
	return err
}

// newSnapshot checks bindings and sorts them into chains. It omits disabled ones.
func newSnapshot(bindings []Binding) (*snapshot, error) {
	s := &snapshot{chains: map[contract.Point][]*link{}, policies: map[Policy]struct{}{}}
	for i := range bindings {
		b := bindings[i]
		if b.Mode == Disabled {
			continue
		}
		l, err := newLink(b)
		if err != nil {
			return nil, &BindingError{Binding: b.Name, Point: b.Point, Err: err}
		}
		if err := s.checkConflicts(l); err != nil {
			return nil, err
		}
		s.chains[b.Point] = append(s.chains[b.Point], l)
		s.policies[b.Policy] = struct{}{}
		if l.fallback != nil {
			s.policies[l.fallback.Policy] = struct{}{}
		}
	}
	for point, links := range s.chains {
		slices.SortStableFunc(links, compareLinks)
		s.chains[point] = pairShadows(links)
	}
	return s, nil
}

// checkConflicts checks a link against the links so far: names are unique per mode, and
// writes that do not commute have an order. Shadow and unavailable links write nothing. A
// fallback has the order of its binding and is not checked.
func (s *snapshot) checkConflicts(l *link) error {
	for _, other := range s.chains[l.Point] {
		if (other.Mode == Shadow) != (l.Mode == Shadow) {
			continue
		}
		if other.Name == l.Name {
			return &BindingError{Binding: l.Name, Point: l.Point, Err: errors.New("the name is bound twice")}
		}
		if l.Mode == Shadow || l.Unavailable != nil || other.Unavailable != nil {
			continue
		}
		if path, conflict := l.conflict(other); conflict {
			return &ConflictError{Point: l.Point, Path: path, First: other.Name, Second: l.Name}
		}
	}
	return nil
}

// pairShadows moves each Shadow link that has the name of an enforced link from the list to
// that link.
func pairShadows(links []*link) []*link {
	return slices.DeleteFunc(links, func(l *link) bool {
		if l.Mode != Shadow {
			return false
		}
		at := slices.IndexFunc(links, func(other *link) bool {
			return other != nil && other.Mode != Shadow && other.Name == l.Name
		})
		if at < 0 {
			return false
		}
		links[at].shadow, l.isPaired = l, true
		return true
	})
}

// assignHealth gives each link the health of its version, from known if it is there, and
// returns the health of all links.
func (s *snapshot) assignHealth(known map[healthKey]*health, options QuarantineOptions) map[healthKey]*health {
	all := map[healthKey]*health{}
	assign := func(l *link) {
		key := healthKey{name: l.Name, point: l.Point, policy: l.Policy, identity: l.identity}
		if l.health = known[key]; l.health == nil {
			l.health = &health{options: options}
			if l.BuiltIn {
				l.health.options.Failures = neverQuarantine
			}
		}
		all[key] = l.health
	}
	for _, links := range s.chains {
		for _, l := range links {
			assign(l)
			if l.shadow != nil {
				assign(l.shadow)
			}
			if l.fallback != nil {
				// A fallback has no fallback of its own, so it is always called.
				l.fallback.health = &health{options: QuarantineOptions{Failures: neverQuarantine}}
			}
		}
	}
	return all
}

func compareLinks(a, b *link) int {
	switch {
	case a.Order == nil && b.Order == nil:
		return cmp.Compare(a.Name, b.Name)
	case a.Order == nil:
		return 1
	case b.Order == nil:
		return -1
	default:
		return cmp.Or(cmp.Compare(*a.Order, *b.Order), cmp.Compare(a.Name, b.Name))
	}
}
