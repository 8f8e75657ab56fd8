package operation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Members of a NodeAffinity and of its parts.
const (
	requiredField    = "requiredDuringSchedulingIgnoredDuringExecution"
	termsField       = "nodeSelectorTerms"
	expressionsField = "matchExpressions"
	fieldsField      = "matchFields"
)

// MaxTerms bounds the node selector terms that a require may produce: the product of
// two long lists would else fill memory and the scheduler.
const MaxTerms = 256

// ErrTooLarge is the error of an operation that is fine, but that the document is too large
// for.
var ErrTooLarge = errors.New("the object is too large")

// term is a node selector term: an AND of requirements on labels and on fields.
type term struct {
	expressions []any
	fields      []any
	// source is what the term was read from, so that an unchanged one is kept as is.
	source any
}

// parseTerms reads the value of a require. Empty terms are left out: they match no
// node, so beside other terms, which are alternatives, they say nothing. If only
// empty terms remain, the result is one empty term: nothing matches.
func parseTerms(value any) ([]term, error) {
	items, ok := value.([]any)
	if !ok {
		return nil, errors.New("the value of a require is a list of node selector terms")
	}
	if len(items) == 0 {
		return nil, errors.New("a require needs at least one node selector term")
	}
	terms := make([]term, 0, len(items))
	for i, item := range items {
		members, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("node selector term %d is no object", i)
		}
		for key := range members {
			if key != expressionsField && key != fieldsField {
				return nil, fmt.Errorf("node selector term %d: unknown field %q", i, key)
			}
		}
		parsed, err := parseTerm(item)
		if err != nil {
			return nil, fmt.Errorf("node selector term %d: %w", i, err)
		}
		terms = append(terms, parsed)
	}
	return matching(terms), nil
}

func parseTerm(item any) (term, error) {
	members, err := asObject(item)
	if err != nil {
		return term{}, err
	}
	expressions, err := asList(members[expressionsField])
	if err != nil {
		return term{}, fmt.Errorf("%s: %w", expressionsField, err)
	}
	fields, err := asList(members[fieldsField])
	if err != nil {
		return term{}, fmt.Errorf("%s: %w", fieldsField, err)
	}
	return term{expressions: expressions, fields: fields, source: item}, nil
}

// matching drops the terms that match no node, unless that leaves none.
func matching(terms []term) []term {
	kept := slices.DeleteFunc(slices.Clone(terms), term.empty)
	if len(kept) == 0 && len(terms) > 0 {
		return terms[:1]
	}
	return kept
}

func (t term) empty() bool { return len(t.expressions) == 0 && len(t.fields) == 0 }

// contains reports whether t demands everything that other demands.
func (t term) contains(other term) bool {
	if other.empty() {
		return t.empty()
	}
	return containsAll(t.expressions, other.expressions) && containsAll(t.fields, other.fields)
}

// and returns the term that demands what both demand. An empty one matches nothing,
// and so does the result.
func (t term) and(other term) term {
	if t.empty() || other.empty() {
		return term{}
	}
	joined := term{
		expressions: union(t.expressions, other.expressions),
		fields:      union(t.fields, other.fields),
	}
	// Members that we do not know stay with the term that was there.
	members := map[string]any{}
	if known, err := asObject(t.source); err == nil {
		members = maps.Clone(known)
	}
	joined.source = joined.write(members)
	return joined
}

func (t term) write(members map[string]any) map[string]any {
	if len(t.expressions) > 0 {
		members[expressionsField] = t.expressions
	}
	if len(t.fields) > 0 {
		members[fieldsField] = t.fields
	}
	return members
}

// require ANDs terms onto the required terms of a NodeAffinity (T4: matchFields of
// both sides are kept; T7: an AND is a product). Existing terms are outermost; one
// that already contains a new one stays as it is, because P and (P or Q) is P.
func require(node any, added []term) (any, bool, error) {
	affinity, err := asObject(node)
	if err != nil {
		return nil, false, err
	}
	required, err := asObject(affinity[requiredField])
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", requiredField, err)
	}
	items, err := asList(required[termsField])
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", termsField, err)
	}
	existing := make([]term, len(items))
	for i, item := range items {
		if existing[i], err = parseTerm(item); err != nil {
			return nil, false, fmt.Errorf("%s %d: %w", termsField, i, err)
		}
	}
	result, changed, err := product(existing, added)
	if err != nil || !changed {
		return node, false, err
	}
	list := make([]any, len(result))
	for i := range result {
		list[i] = result[i].source
		if list[i] == nil {
			list[i] = map[string]any{}
		}
	}
	return with(affinity, requiredField, with(required, termsField, list)), true, nil
}

func product(existing, added []term) ([]term, bool, error) {
	if len(existing) == 0 {
		return added, true, nil
	}
	var result []term
	changed := false
	for _, old := range existing {
		if slices.ContainsFunc(added, old.contains) {
			result = append(result, old)
			continue
		}
		// A term that matches nothing still does after an AND.
		if old.empty() {
			result = append(result, old)
			continue
		}
		changed = true
		for _, extra := range added {
			joined := old.and(extra)
			if !slices.ContainsFunc(result, joined.equal) {
				result = append(result, joined)
			}
		}
		if len(result) > MaxTerms {
			if len(added) > MaxTerms {
				return nil, false, fmt.Errorf("%d node selector terms are more than the allowed %d", len(added), MaxTerms)
			}
			return nil, false, fmt.Errorf("%w: with the %d node selector terms that it has it would get more than %d", ErrTooLarge, len(existing), MaxTerms)
		}
	}
	if changed {
		result = matching(result)
	}
	return result, changed, nil
}

func (t term) equal(other term) bool {
	return len(t.expressions) == len(other.expressions) && len(t.fields) == len(other.fields) && t.contains(other)
}

func with(members map[string]any, key string, value any) map[string]any {
	next := make(map[string]any, len(members)+1)
	maps.Copy(next, members)
	next[key] = value
	return next
}

func containsAll(have, want []any) bool {
	all := requirements(have, len(want))
	for _, item := range want {
		if !all.contains(item) {
			return false
		}
	}
	return true
}

func union(have, add []any) []any {
	joined := slices.Clone(have)
	all := requirements(have, len(add))
	for _, item := range add {
		if all.add(item) {
			joined = append(joined, item)
		}
	}
	return joined
}

// collection is a set of requirements, or for few of them a list.
type collection interface {
	contains(item any) bool
	// add puts an item into the collection and reports whether it was not there.
	add(item any) bool
}

type shortList struct{ items []any }

func (l *shortList) contains(item any) bool {
	return slices.ContainsFunc(l.items, func(other any) bool { return sameRequirement(item, other) })
}

func (l *shortList) add(item any) bool {
	if l.contains(item) {
		return false
	}
	l.items = append(l.items, item)
	return true
}

// requirements returns the items as a collection that is asked about so many.
func requirements(items []any, asked int) collection {
	if (len(items)+asked)*asked <= fewComparisons {
		return &shortList{items: slices.Clip(items)}
	}
	s := newSet(len(items), hashRequirement, sameRequirement)
	for _, item := range items {
		s.add(item)
	}
	return s
}

// hashRequirement is equal for requirements that are the same.
func hashRequirement(item any) uint64 {
	members, err := asObject(item)
	if err != nil {
		return 0
	}
	values, err := asList(members["values"])
	if err != nil {
		return 0
	}
	distinct := make(map[uint64]struct{}, len(values))
	sum := uint64(0)
	for _, value := range values {
		hash := hashValue(value)
		if _, known := distinct[hash]; !known {
			distinct[hash] = struct{}{}
			sum += hash
		}
	}
	return mix(mix(hashValue(members["key"]), hashValue(members["operator"])), sum)
}

// sameRequirement compares key, operator and values; the order of values has no
// meaning.
func sameRequirement(a, b any) bool {
	x, errX := asObject(a)
	y, errY := asObject(b)
	if errX != nil || errY != nil || !Equal(x["key"], y["key"]) || !Equal(x["operator"], y["operator"]) {
		return false
	}
	left, errX := asList(x["values"])
	right, errY := asList(y["values"])
	if errX != nil || errY != nil {
		return false
	}
	return subset(left, right) && subset(right, left)
}

func subset(part, whole []any) bool {
	contains := func(item any) bool {
		return slices.ContainsFunc(whole, func(other any) bool { return Equal(item, other) })
	}
	if len(part)*len(whole) > fewComparisons {
		contains = setOf(whole).contains
	}
	for _, item := range part {
		if !contains(item) {
			return false
		}
	}
	return true
}
