package chain

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// snapshot holds all chains at one time. It is immutable except for its counters.
type snapshot struct {
	chains   map[contract.Point][]*link
	policies map[Policy]struct{}

	// evaluations that use the snapshot.
	evaluations atomic.Int64
	replaced    atomic.Bool
	retired     atomic.Bool
}

// link is a checked binding of a chain.
type link struct {
	Binding
	moments []contract.Moment
	reads   *reads
	writes  operation.Rules
	bound   bound
	export  string
	// identity differs for links that may answer the same request differently. It covers
	// the digest of the module, the settings and the checks of the answer.
	identity [sha256.Size]byte
	// prefixes are the encoded requests up to the facts, by moment.
	prefixes map[contract.Moment][]byte
	maximum  Limits
	// health of this version; shared with the links of other snapshots.
	health *health
	// fallback is the previous version, nil if there is none at this point.
	fallback *link
	// shadow is the Shadow link with the name of this enforced link, nil if there is none.
	shadow *link
	// isPaired marks such a Shadow link.
	isPaired bool
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
		return nil, fmt.Errorf("module %q supports the contract versions %v, the host %v: the module's author must build it for a version of the host", b.Policy.Name(), manifest.Contracts, contract.Versions())
	}
	declared := manifest.For(b.Point)
	if declared == nil {
		return nil, fmt.Errorf("module %q does not implement this extension point: the operator must choose another module or other points", b.Policy.Name())
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

// addFallback adds the link of the previous version, if that version implements the point.
// Objects are matched by the binding's own matcher.
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
		return fmt.Errorf("previous version: %w", err)
	}
	l.fallback = fallback
	return nil
}

// momentsOf returns the moments at which a binding is called, nil for all.
func momentsOf(b Binding, declared *contract.PointManifest) ([]contract.Moment, error) {
	if len(b.Moments) == 0 {
		return declared.Moments, nil
	}
	for _, moment := range b.Moments {
		if !declared.At(moment) {
			return nil, fmt.Errorf("module %q does not implement the moment %s: the operator must correct spec.points", b.Policy.Name(), moment)
		}
	}
	return b.Moments, nil
}

func writesOf(b Binding, declared *contract.PointManifest, limit bound) (operation.Rules, error) {
	writes, err := operation.CompileRules(declared.Writes)
	if err != nil {
		return nil, fmt.Errorf("manifest of module %q: %w; the module's author must correct it", b.Policy.Name(), err)
	}
	if err := writes.Within(limit.writes); err != nil {
		return nil, fmt.Errorf("manifest of module %q declares more than the extension point allows: %w; the module's author must correct it", b.Policy.Name(), err)
	}
	if len(b.Allow.Writes) == 0 {
		return writes, nil
	}
	allowed, err := operation.CompileRules(b.Allow.Writes)
	if err != nil {
		return nil, fmt.Errorf("spec.allow: %w; the operator must correct it", err)
	}
	return writes.Intersect(allowed), nil
}

// prepare encodes the part that all requests of the link have in common.
func (l *link) prepare() error {
	var settings json.RawMessage
	if len(l.Settings) > 0 {
		if err := operation.CheckSettings(l.Settings); err != nil {
			return err
		}
		value, err := jsonvalue.Decode(l.Settings)
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
		if !l.isCalledAt(moment) {
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

// isCalledAt reports whether the link is called at a moment, "" at points without moments.
func (l *link) isCalledAt(moment contract.Moment) bool {
	return len(l.moments) == 0 || slices.Contains(l.moments, moment)
}

// conflict returns a path at which the order of two links matters and is not set.
func (l *link) conflict(other *link) (string, bool) {
	if l.Order != nil && other.Order != nil && *l.Order != *other.Order {
		return "", false
	}
	if len(l.moments) > 0 && len(other.moments) > 0 && !slices.ContainsFunc(l.moments, other.isCalledAt) {
		return "", false
	}
	return other.writes.Conflict(l.writes)
}
