package operation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// Rules are the compiled write rules of a policy, an extension point or a binding. They are
// immutable and safe for concurrent use.
type Rules []rule

type rule struct {
	path  Path
	verbs []contract.Verb
	keys  []string
}

// CompileRules parses write rules. Errors name the rule; its author must fix it.
func CompileRules(source []contract.WriteRule) (Rules, error) {
	rules := make(Rules, 0, len(source))
	for i, from := range source {
		compiled, err := compileRule(from)
		if err != nil {
			return nil, fmt.Errorf("write rule %d: %w", i, err)
		}
		rules = append(rules, compiled)
	}
	return rules, nil
}

func compileRule(from contract.WriteRule) (rule, error) {
	path, err := ParsePath(from.Path)
	if err != nil {
		return rule{}, err
	}
	if len(from.Verbs) == 0 {
		return rule{}, fmt.Errorf("path %q allows no verb", from.Path)
	}
	for _, verb := range from.Verbs {
		if !slices.Contains(contract.Verbs(), verb) {
			return rule{}, fmt.Errorf("path %q: unknown verb %q", from.Path, verb)
		}
		if len(from.Keys) > 0 && verb != contract.VerbMerge && verb != contract.VerbRemove {
			return rule{}, fmt.Errorf("path %q: keys are allowed with merge and remove only, not with %s", from.Path, verb)
		}
	}
	if slices.Contains(from.Keys, "") {
		return rule{}, errors.New("a key is empty")
	}
	return rule{path: path, verbs: from.Verbs, keys: from.Keys}, nil
}

// isAdditive reports whether a verb commutes with itself. It does as long as neither
// operation changes what the other adds. A rule that allows such a verb therefore allows it
// at its path and at fields below, but not in list items that its path does not select.
func isAdditive(verb contract.Verb) bool {
	return verb == contract.VerbEnsure || verb == contract.VerbRequire
}

// Check returns a [*NotAllowedError] unless a rule allows the operation: the rule's path
// covers the operation's, the rule lists the verb, and its keys, if it has any, include all
// keys of the operation. A rule with keys applies to the map at its path only, and does not
// allow the removal of the whole map. Ensure and require go no deeper into lists than the
// rule.
func (r Rules) Check(o *Operation) error {
	for i := range r {
		if r[i].allows(o) {
			return nil
		}
	}
	refused := &NotAllowedError{Verb: o.Verb, Path: o.Path.text, Keys: o.changedKeys(), Allowed: r.String()}
	isCovered := func(each rule) bool { return slices.Contains(each.verbs, o.Verb) && each.path.Covers(o.Path) }
	if isAdditive(o.Verb) && slices.ContainsFunc(r, isCovered) {
		refused.Example = o.Path.withAllItems()
	}
	return refused
}

// NotAllowedError reports a write that rules do not allow.
type NotAllowedError struct {
	Verb contract.Verb
	// Path, and the keys below it, that would be written.
	Path string
	Keys []string
	// Allowed lists the rules.
	Allowed string
	// Example is a path that selects list items. It is set if a rule covers the path but does
	// not select the items in which an additive verb would write.
	Example string
}

// Error implements error.
func (e *NotAllowedError) Error() string {
	what := string(e.Verb) + " " + e.Path
	if len(e.Keys) > 0 {
		what += " [" + strings.Join(e.Keys, " ") + "]"
	}
	if e.Example != "" {
		return fmt.Sprintf("%s is not allowed, only %s: a rule allows %s in list items only if its path selects them, for example %s",
			what, e.Allowed, e.Verb, e.Example)
	}
	return fmt.Sprintf("%s is not allowed, only %s", what, e.Allowed)
}

func (r rule) allows(o *Operation) bool {
	if !slices.Contains(r.verbs, o.Verb) || !r.path.Covers(o.Path) {
		return false
	}
	if isAdditive(o.Verb) && o.Path.entersItems(len(r.path.steps)) {
		return false
	}
	if len(r.keys) == 0 {
		return true
	}
	keys := o.changedKeys()
	if len(r.path.steps) != len(o.Path.steps) || (o.Verb == contract.VerbRemove && len(keys) == 0) {
		return false
	}
	return !slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(r.keys, key) })
}

func (o *Operation) changedKeys() []string {
	if o.Verb == contract.VerbMerge {
		return o.mergeKeys()
	}
	return o.Keys
}

// String lists the rules for messages.
func (r Rules) String() string {
	if len(r) == 0 {
		return "nothing"
	}
	parts := make([]string, len(r))
	for i := range r {
		verbs := make([]string, len(r[i].verbs))
		for j, verb := range r[i].verbs {
			verbs[j] = string(verb)
		}
		parts[i] = strings.Join(verbs, "|") + " " + r[i].path.text
		if len(r[i].keys) > 0 {
			parts[i] += " [" + strings.Join(r[i].keys, " ") + "]"
		}
	}
	return strings.Join(parts, ", ")
}

// Within returns a [*NotAllowedError] about the first rule that allows what outer does not.
func (r Rules) Within(outer Rules) error {
	for i := range r {
		for _, verb := range r[i].verbs {
			if !slices.ContainsFunc(outer, func(o rule) bool { return o.includes(r[i], verb) }) {
				return &NotAllowedError{Verb: verb, Path: r[i].path.text, Keys: r[i].keys, Allowed: outer.String()}
			}
		}
	}
	return nil
}

func (r rule) includes(inner rule, verb contract.Verb) bool {
	if !slices.Contains(r.verbs, verb) || !r.path.Covers(inner.path) {
		return false
	}
	if len(r.keys) == 0 {
		return true
	}
	if len(inner.keys) == 0 || len(r.path.steps) != len(inner.path.steps) {
		return false
	}
	return !slices.ContainsFunc(inner.keys, func(key string) bool { return !slices.Contains(r.keys, key) })
}

// Conflict returns a path at which the order of two policies with these rules matters, and
// whether there is such a path. Ensure commutes with ensure, require with require, and
// merges or removals of different keys with each other. Nothing else on one path commutes,
// nor does writing a member with selecting by it. Without a conflict, operations that the
// rules allow have the same result in any order, except for the order of list items and for
// node selector terms that others imply, or fail in any order.
func (r Rules) Conflict(other Rules) (string, bool) {
	for _, a := range r {
		for _, b := range other {
			if !conflicts(a, b) {
				continue
			}
			// The more exact path, so that the result does not depend on the receiver.
			first, second := a.path, b.path
			if cmp.Or(cmp.Compare(len(second.steps), len(first.steps)), cmp.Compare(first.text, second.text)) > 0 {
				return second.text, true
			}
			return first.text, true
		}
	}
	return "", false
}

func conflicts(a, b rule) bool {
	for _, left := range a.paths() {
		if slices.ContainsFunc(b.paths(), left.interferesWith) {
			return true
		}
	}
	return a.path.Overlaps(b.path) && !commute(a, b)
}

// paths returns the rule's path, or the paths of its keys.
func (r rule) paths() []Path {
	if len(r.keys) == 0 {
		return []Path{r.path}
	}
	paths := make([]Path, len(r.keys))
	for i, key := range r.keys {
		paths[i] = r.path.member(key)
	}
	return paths
}

// commute reports whether two rules with overlapping paths commute.
func commute(a, b rule) bool {
	if len(a.keys) > 0 && len(b.keys) > 0 && len(a.path.steps) == len(b.path.steps) {
		return !slices.ContainsFunc(a.keys, func(key string) bool { return slices.Contains(b.keys, key) })
	}
	shorter := min(len(a.path.steps), len(b.path.steps))
	if a.path.entersItems(shorter) || b.path.entersItems(shorter) {
		return false
	}
	for _, va := range a.verbs {
		for _, vb := range b.verbs {
			if va != vb || !isAdditive(va) {
				return false
			}
		}
	}
	return true
}

// MustCompileRules is [CompileRules] for rules that are constants of the host. It panics on
// an invalid rule.
func MustCompileRules(source []contract.WriteRule) Rules {
	rules, err := CompileRules(source)
	if err != nil {
		panic(err)
	}
	return rules
}

// Intersect returns rules that allow what r and other both allow.
func (r Rules) Intersect(other Rules) Rules {
	var both Rules
	for _, a := range r {
		for _, b := range other {
			if common, ok := a.intersect(b); ok {
				both = append(both, common)
			}
		}
	}
	return both
}

func (r rule) intersect(other rule) (rule, bool) {
	common := rule{path: r.path, keys: r.keys}
	switch {
	case other.path.Covers(r.path):
	case r.path.Covers(other.path):
		common = rule{path: other.path, keys: other.keys}
	default:
		return rule{}, false
	}
	// A rule with keys applies to its own map only, so the intersection is empty below it.
	sameMap := len(r.path.steps) == len(other.path.steps)
	for _, outer := range []rule{r, other} {
		if len(outer.keys) == 0 {
			continue
		}
		if len(outer.path.steps) < len(common.path.steps) {
			return rule{}, false
		}
		if common.keys = outer.keys; sameMap && len(r.keys) > 0 && len(other.keys) > 0 {
			common.keys = intersection(r.keys, other.keys)
			if len(common.keys) == 0 {
				return rule{}, false
			}
		}
	}
	common.verbs = intersection(r.verbs, other.verbs)
	if common.path.entersItems(min(len(r.path.steps), len(other.path.steps))) {
		common.verbs = slices.DeleteFunc(common.verbs, isAdditive)
	}
	return common, len(common.verbs) > 0
}

func intersection[T comparable](a, b []T) []T {
	var both []T
	for _, item := range a {
		if slices.Contains(b, item) {
			both = append(both, item)
		}
	}
	return both
}
