package operation

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/longshore-dev/longshore/host/policy/document"
)

// Members of a NodeAffinity and of its parts.
const (
	requiredField    = "requiredDuringSchedulingIgnoredDuringExecution"
	termsField       = "nodeSelectorTerms"
	expressionsField = "matchExpressions"
	fieldsField      = "matchFields"
)

// MaxTerms bounds the node selector terms that a require may produce. The product of two
// long lists would otherwise exhaust memory and slow the scheduler down.
const MaxTerms = 256

// ErrTooLarge is the error of a valid operation on a document that is too large for it.
var ErrTooLarge = errors.New("the object is too large")

// term is a node selector term: all of its requirements on labels and fields must hold.
type term struct {
	expressions []any
	fields      []any
	// source is the value that the term was parsed from.
	source any
}

// parseTerms parses the value of a require. It drops empty terms, which match no node and
// so add nothing to a list of alternatives. If all terms are empty, it returns one of them.
func parseTerms(value any) ([]term, error) {
	items, ok := value.([]any)
	if !ok {
		return nil, errors.New("the value of a require must be a list of node selector terms")
	}
	if len(items) == 0 {
		return nil, errors.New("a require needs at least one node selector term")
	}
	terms := make([]term, 0, len(items))
	for i, item := range items {
		members, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("node selector term %d is not an object", i)
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
	return dropEmptyTerms(terms), nil
}

func parseTerm(item any) (term, error) {
	members, err := document.Object(item)
	if err != nil {
		return term{}, err
	}
	expressions, err := document.List(members[expressionsField])
	if err != nil {
		return term{}, fmt.Errorf("%s: %w", expressionsField, err)
	}
	fields, err := document.List(members[fieldsField])
	if err != nil {
		return term{}, fmt.Errorf("%s: %w", fieldsField, err)
	}
	return term{expressions: expressions, fields: fields, source: item}, nil
}

// dropEmptyTerms drops the terms that match no node, but keeps one if all are empty.
func dropEmptyTerms(terms []term) []term {
	kept := slices.DeleteFunc(slices.Clone(terms), term.isEmpty)
	if len(kept) == 0 && len(terms) > 0 {
		return terms[:1]
	}
	return kept
}

func (t term) isEmpty() bool { return len(t.expressions) == 0 && len(t.fields) == 0 }

// implies reports whether t has every requirement of other.
func (t term) implies(other term) bool {
	if other.isEmpty() {
		return t.isEmpty()
	}
	return requirementSet(t.expressions).containsAll(other.expressions) && requirementSet(t.fields).containsAll(other.fields)
}

func (t term) equal(other term) bool {
	return len(t.expressions) == len(other.expressions) && len(t.fields) == len(other.fields) && t.implies(other)
}

// and returns a term with the requirements of both. An empty term matches no node, and so
// does its AND with any other.
func (t term) and(other term) term {
	if t.isEmpty() || other.isEmpty() {
		return term{}
	}
	joined := term{
		expressions: unionOfRequirements(t.expressions, other.expressions),
		fields:      unionOfRequirements(t.fields, other.fields),
	}
	// Members that this version does not know are kept.
	members := map[string]any{}
	if known, err := document.Object(t.source); err == nil {
		members = maps.Clone(known)
	}
	if len(joined.expressions) > 0 {
		members[expressionsField] = joined.expressions
	}
	if len(joined.fields) > 0 {
		members[fieldsField] = joined.fields
	}
	joined.source = members
	return joined
}

// require ANDs terms onto the required terms of a NodeAffinity. The result is the
// product of both lists, existing terms outermost. An existing term that implies an added
// one stays as it is, because P and (P or Q) is P.
func require(node any, added []term) (any, bool, error) {
	affinity, err := document.Object(node)
	if err != nil {
		return nil, false, err
	}
	required, err := document.Object(affinity[requiredField])
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", requiredField, err)
	}
	items, err := document.List(required[termsField])
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", termsField, err)
	}
	existing := make([]term, len(items))
	for i, item := range items {
		if existing[i], err = parseTerm(item); err != nil {
			return nil, false, fmt.Errorf("%s %d: %w", termsField, i, err)
		}
	}
	result, changed, err := multiplyTerms(existing, added)
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
	return document.With(affinity, requiredField, document.With(required, termsField, list)), true, nil
}

func multiplyTerms(existing, added []term) (result []term, changed bool, err error) {
	if len(existing) == 0 {
		return added, true, nil
	}
	for _, old := range existing {
		if old.isEmpty() || slices.ContainsFunc(added, old.implies) {
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
				return nil, false, fmt.Errorf("%d node selector terms, more than the allowed %d", len(added), MaxTerms)
			}
			return nil, false, fmt.Errorf("%w: its %d node selector terms would become more than %d", ErrTooLarge, len(existing), MaxTerms)
		}
	}
	if changed {
		result = dropEmptyTerms(result)
	}
	return result, changed, nil
}

func unionOfRequirements(have, added []any) []any {
	joined := slices.Clone(have)
	known := requirementSet(have)
	for _, item := range added {
		if known.add(item) {
			joined = append(joined, item)
		}
	}
	return joined
}

func requirementSet(items []any) *set { return newSet(items, hashRequirement, equalRequirements) }

// hashRequirement returns the same hash for requirements that equalRequirements finds equal.
func hashRequirement(item any) uint64 {
	members, err := document.Object(item)
	if err != nil {
		return 0
	}
	values, err := document.List(members["values"])
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

// equalRequirements compares key, operator and values. The order of values has no meaning.
func equalRequirements(a, b any) bool {
	x, errX := document.Object(a)
	y, errY := document.Object(b)
	if errX != nil || errY != nil || !document.Equal(x["key"], y["key"]) || !document.Equal(x["operator"], y["operator"]) {
		return false
	}
	left, errX := document.List(x["values"])
	right, errY := document.List(y["values"])
	if errX != nil || errY != nil {
		return false
	}
	return newSet(right, hashValue, document.Equal).containsAll(left) && newSet(left, hashValue, document.Equal).containsAll(right)
}
