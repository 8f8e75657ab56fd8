package chain

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

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

// newLink checks a binding.
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
		if settings, err = document.Append(nil, value); err != nil {
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
