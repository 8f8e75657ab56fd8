package chain

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// snapshot is all chains at one instant. It is immutable but for its counters.
type snapshot struct {
	chains   map[contract.Point][]*link
	policies map[Policy]struct{}

	calls      atomic.Int64
	superseded atomic.Bool
	retired    atomic.Bool
}

// link is a checked binding of a chain.
type link struct {
	Binding
	moments []contract.Moment
	reads   *reads
	writes  operation.Rules
	bound   bound
	export  string
	// identity tells apart answers that may differ for equal requests: the digests of
	// module and settings, and what is accepted of the answer.
	identity [sha256.Size]byte
	// prefixes are the encoded requests up to the facts, by moment.
	prefixes map[contract.Moment][]byte
	maximum  Limits
	// health of this version; shared with the links of other snapshots.
	health *health
	// fallback is the previous version, nil when there is none at this point.
	fallback *link
	// said is the last answer of the policy, decoded.
	said atomic.Pointer[said]
	// shadowed stands in for this link, and is its twin.
	shadowed *link
	twin     bool
}

// BindingError tells which binding cannot be used and why.
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

// ConflictError tells that the order of two policies matters at a path, and that
// nobody has fixed it. Second is the later in the list given to Swap.
type ConflictError struct {
	Point         contract.Point
	Path          string
	First, Second string
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("policies %q and %q both write %s at %s: an operator must give each a different spec.order, or narrow one with spec.allow",
		e.First, e.Second, e.Path, e.Point)
}

// Check tells whether [Chains.Swap] would take these bindings, with the same errors.
func Check(bindings []Binding) error {
	_, err := newSnapshot(bindings)
	return err
}

// newSnapshot checks bindings and sorts them into chains. Disabled ones are left out.
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
		if err := s.fits(l); err != nil {
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
		s.chains[point] = pair(links)
	}
	return s, nil
}

// fits checks a link against those there are: names are unique per mode, and the order
// of writes that do not commute is fixed. A Shadow link writes nothing, nor does
// one that cannot be asked. Nor is the order of a fallback's writes looked at: it stands
// where its binding stands.
func (s *snapshot) fits(l *link) error {
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

// pair takes the Shadow links out of the order that stand in for an enforced one.
func pair(links []*link) []*link {
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
		links[at].shadowed, l.twin = l, true
		return true
	})
}

// adopt gives the links their health: that of the version so far, else a new one.
func (s *snapshot) adopt(known map[healthKey]*health, options QuarantineOptions) map[healthKey]*health {
	now := map[healthKey]*health{}
	give := func(l *link, options QuarantineOptions) {
		key := healthKey{name: l.Name, point: l.Point, policy: l.Policy, identity: l.identity}
		if l.BuiltIn {
			options.Failures = -1 // what it fails on is an object: it is Longshore's own code
		}
		if l.health = known[key]; l.health == nil {
			l.health = &health{options: options}
		}
		now[key] = l.health
	}
	for _, links := range s.chains {
		for _, l := range links {
			give(l, options)
			if l.shadowed != nil {
				give(l.shadowed, options)
			}
			if l.fallback != nil {
				// There is nothing behind it, so it is always asked.
				l.fallback.health = &health{options: QuarantineOptions{Failures: -1}}
			}
		}
	}
	return now
}

// sortedPoints returns the points that have chains, by name.
func sortedPoints(chains map[contract.Point][]*link) []contract.Point {
	return slices.Sorted(maps.Keys(chains))
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

func newLink(b Binding) (*link, error) {
	if b.Name == "" || b.Policy == nil {
		return nil, errors.New("a binding needs a name and a policy")
	}
	switch b.FailurePolicy {
	case "", Fail, Ignore, LastGood:
	default:
		return nil, fmt.Errorf("unknown failure policy %q", b.FailurePolicy)
	}
	if b.Mode != "" && b.Mode != Enforce && b.Mode != Shadow {
		return nil, fmt.Errorf("unknown mode %q", b.Mode)
	}
	limit, known := bounds[b.Point]
	if !known {
		return nil, errors.New("unknown extension point")
	}
	manifest := b.Policy.Manifest()
	if _, ok := contract.Negotiate(contract.Versions(), manifest.Contracts); !ok {
		return nil, fmt.Errorf("module %q speaks the contract versions %v, the host %v: its author must build it for one of the latter", b.Policy.Name(), manifest.Contracts, contract.Versions())
	}
	declared := manifest.For(b.Point)
	if declared == nil {
		return nil, fmt.Errorf("module %q does not answer this point: the operator must choose another module, or other points", b.Policy.Name())
	}
	l := &link{Binding: b, bound: limit, export: b.Point.Export(), maximum: b.Limits.withDefaults(b.BuiltIn)}
	var err error
	if l.moments, err = momentsOf(b, declared); err != nil {
		return nil, err
	}
	if l.reads, err = newReads(declared.ReadsOf(len(b.Settings) > 0), b.Allow.Reads, limit); err != nil {
		return nil, err
	}
	if l.writes, err = writesOf(b, declared, limit); err != nil {
		return nil, err
	}
	if err := l.prepare(); err != nil {
		return nil, err
	}
	return l, l.addFallback()
}

// addFallback makes the link of the previous version, if it answered this point. The
// binding's own matcher says which objects are concerned.
func (l *link) addFallback() error {
	previous := l.Fallback
	if previous == nil || l.FailurePolicy != LastGood || l.Unavailable != nil || l.Mode == Shadow || previous.Policy == nil ||
		previous.Policy.Manifest().For(l.Point) == nil {
		return nil
	}
	b := *previous
	b.Name, b.Point, b.Order, b.Match, b.Fallback, b.Mode, b.FailurePolicy = l.Name, l.Point, l.Order, nil, nil, Enforce, Fail
	fallback, err := newLink(b)
	if err != nil {
		return fmt.Errorf("its previous version: %w", err)
	}
	l.fallback = fallback
	return nil
}

// momentsOf returns the moments at which a binding is asked, nil for all.
func momentsOf(b Binding, declared *contract.PointManifest) ([]contract.Moment, error) {
	if len(b.Moments) == 0 {
		return declared.Moments, nil
	}
	for _, moment := range b.Moments {
		if !declared.At(moment) {
			return nil, fmt.Errorf("module %q does not answer at moment %s", b.Policy.Name(), moment)
		}
	}
	return b.Moments, nil
}

func writesOf(b Binding, declared *contract.PointManifest, limit bound) (operation.Rules, error) {
	writes, err := operation.CompileRules(declared.Writes)
	if err != nil {
		return nil, fmt.Errorf("manifest of module %q: %w; its author must correct it", b.Policy.Name(), err)
	}
	if err := writes.Within(limit.writes); err != nil {
		return nil, fmt.Errorf("manifest of module %q declares more than the point allows: %w; its author must correct it", b.Policy.Name(), err)
	}
	if len(b.Allow.Writes) == 0 {
		return writes, nil
	}
	allowed, err := operation.CompileRules(b.Allow.Writes)
	if err != nil {
		return nil, fmt.Errorf("allow: %w; the operator must correct it", err)
	}
	return writes.Intersect(allowed), nil
}

// prepare encodes what all requests of the link have in common.
func (l *link) prepare() error {
	var settings json.RawMessage
	if len(l.Settings) > 0 {
		if err := operation.CheckSettings(l.Settings); err != nil {
			return err
		}
		value, err := operation.Decode(l.Settings)
		if err != nil {
			return fmt.Errorf("settings: %w; the operator must correct them", err)
		}
		if _, ok := value.(map[string]any); !ok {
			return errors.New("settings must be a JSON object: the operator must correct them")
		}
		if settings, err = appendJSON(nil, value); err != nil {
			return fmt.Errorf("settings: %w; the operator must correct them", err)
		}
	}
	l.prefixes = map[contract.Moment][]byte{}
	for _, moment := range []contract.Moment{"", contract.MomentAdmission, contract.MomentOffload} {
		if !l.at(moment) {
			continue
		}
		prefix := append([]byte(`{"version":"`), contract.Version...)
		prefix = append(append(prefix, `","point":"`...), l.Point...)
		if moment != "" {
			prefix = append(append(prefix, `","moment":"`...), moment...)
		}
		prefix = append(prefix, '"')
		if settings != nil {
			prefix = append(append(prefix, `,"settings":`...), settings...)
		}
		l.prefixes[moment] = append(prefix, `,"facts":`...)
	}
	l.identity = sha256.Sum256(fmt.Appendf(nil, "%q %q %q %v", l.Policy.Digest(), settings, l.writes.String(), l.maximum))
	return nil
}

func (l Limits) withDefaults(builtIn bool) Limits {
	request, response := contract.MaxRequestBytes, contract.MaxResponseBytes
	if builtIn {
		request, response = MaxBuiltInBytes, MaxBuiltInBytes
	}
	lower := func(value, bound int) int {
		if value <= 0 || value > bound {
			return bound
		}
		return value
	}
	return Limits{
		RequestBytes:  lower(l.RequestBytes, request),
		ResponseBytes: lower(l.ResponseBytes, response),
		Operations:    lower(l.Operations, contract.MaxOperations),
	}
}

// at reports whether the link is asked at the moment; points without moments are
// asked at "".
func (l *link) at(moment contract.Moment) bool {
	return len(l.moments) == 0 || slices.Contains(l.moments, moment)
}

// conflict finds a path at which the unfixed order of two links matters.
func (l *link) conflict(other *link) (string, bool) {
	if l.Order != nil && other.Order != nil && *l.Order != *other.Order {
		return "", false
	}
	if len(l.moments) > 0 && len(other.moments) > 0 && !slices.ContainsFunc(l.moments, other.at) {
		return "", false
	}
	return other.writes.Conflict(l.writes)
}
