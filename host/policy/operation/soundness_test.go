package operation_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// item is a list item with members to select by and members to write.
func (s source) item() string {
	return fmt.Sprintf(`{"name":%q,"kind":%q,"v":%d,"tags":%s,"m":%s}`,
		s.pick("x", "y"), s.pick("p", "q"), s.IntN(2), s.words(), s.object())
}

func (s source) words() string {
	var words []string
	for range s.IntN(3) {
		words = append(words, fmt.Sprintf("%q", s.pick("s", "t", "u")))
	}
	return "[" + strings.Join(words, ",") + "]"
}

func (s source) items() string {
	var items []string
	for range s.IntN(4) {
		items = append(items, s.item())
	}
	return "[" + strings.Join(items, ",") + "]"
}

// deepDoc returns a random document with values at the paths below.
func (s source) deepDoc() string {
	members := []string{`"na":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":` + s.terms() + `}}`}
	if s.IntN(4) > 0 {
		members = append(members, `"list":`+s.items())
	}
	if s.IntN(4) > 0 {
		members = append(members, `"map":`+s.object())
	}
	if s.IntN(2) > 0 {
		members = append(members, `"words":`+s.words())
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (s source) path() string {
	return s.pick("/map", "/map/a", "/map/c/d", "/list", "/list[*]", "/list[name=x]", "/list[name=y]", "/list[kind=p]",
		"/list[*]/v", "/list[name=x]/v", "/list[kind=p]/v", "/list[*]/name", "/list[*]/kind", "/list[name=x]/kind", "/list[name=x]/name",
		"/list[*]/tags", "/list[name=x]/tags", "/list[kind=p]/tags", "/list[*]/m", "/list[name=y]/m", "/list[kind=p]/m/a",
		"/words", "/words[*]", "/na", "/new", "/new/a", "/new/a/b", "/list/odd", "/map[*]/odd")
}

// rule returns a random write rule, often one that commutes with others.
func (s source) rule() contract.WriteRule {
	rule := contract.WriteRule{Path: s.path()}
	verbs := contract.Verbs()
	for range 1 + s.IntN(2)*s.IntN(2) {
		if verb := verbs[s.IntN(len(verbs))]; !slices.Contains(rule.Verbs, verb) {
			rule.Verbs = append(rule.Verbs, verb)
		}
	}
	keyed := !slices.ContainsFunc(rule.Verbs, func(v contract.Verb) bool { return v != contract.VerbMerge && v != contract.VerbRemove })
	if keyed && s.IntN(3) > 0 {
		rule.Keys = []string{s.pick("a", "b", "name"), s.pick("c", "d", "kind")}
	}
	return rule
}

// operationOf returns a random operation that the rule probably allows.
func (s source) operationOf(rule contract.WriteRule) contract.Operation {
	path := rule.Path
	if s.IntN(3) == 0 {
		path += s.pick("/a", "/v", "/tags", "/m", "/name", "/kind", "[*]", "[name=x]", "[name=x]/v", "[*]/tags", "[*]/kind")
	}
	key := func() string {
		if len(rule.Keys) > 0 {
			return rule.Keys[s.IntN(len(rule.Keys))]
		}
		return s.pick("a", "c", "name")
	}
	op := contract.Operation{Op: rule.Verbs[s.IntN(len(rule.Verbs))], Path: path}
	switch op.Op {
	case contract.VerbSet:
		op.Value = json.RawMessage(s.pick("7", `"x"`, `"y"`, `"p"`, s.object(), s.item(), s.items(), s.words()))
	case contract.VerbRemove:
		if len(rule.Keys) > 0 || s.IntN(2) > 0 {
			op.Keys = []string{key()}
		}
	case contract.VerbMerge:
		op.Value = json.RawMessage(fmt.Sprintf(`{%q:%s}`, key(), s.pick("1", `"x"`, `"p"`)))
	case contract.VerbEnsure:
		op.Value = json.RawMessage(s.pick(s.words(), s.items()))
	case contract.VerbRequire:
		op.Value = json.RawMessage(s.terms())
	}
	return op
}

// policy returns random rules and operations that they allow.
func (s source) policy(t *testing.T) (operation.Rules, []operation.Operation) {
	t.Helper()
	var declared []contract.WriteRule
	for range 1 + s.IntN(2) {
		declared = append(declared, s.rule())
	}
	allowed := rules(t, declared...)
	var operations []operation.Operation
	for range 1 + s.IntN(3) {
		op := s.operationOf(declared[s.IntN(len(declared))])
		compiled, err := operation.Compile([]contract.Operation{op})
		if err == nil && allowed.Check(&compiled[0]) == nil {
			operations = append(operations, compiled...)
		}
	}
	return allowed, operations
}

// If Conflict finds no conflict between the rules of two policies, their operations have the
// same result in both orders.
func TestConflictIsSound(t *testing.T) {
	tried, changed := 0, 0
	for seed := range uint64(20 * rounds) {
		s := newSource(seed)
		rulesA, a := s.policy(t)
		rulesB, b := s.policy(t)
		if _, conflict := rulesA.Conflict(rulesB); conflict || len(a) == 0 || len(b) == 0 {
			continue
		}
		doc := decode(t, s.deepDoc())
		before := encode(t, doc)
		ab, effects, errAB := applyBoth(doc, a, b)
		ba, _, errBA := applyBoth(doc, b, a)
		require.Equal(t, before, encode(t, doc), "seed %d: the input is altered", seed)
		require.Equal(t, errAB == nil, errBA == nil, "seed %d: %s\n%s: %v\n%s: %v\non %s: %v and %v", seed, "one order fails", rulesA, a, rulesB, b, before, errAB, errBA)
		tried++
		if errAB != nil {
			continue
		}
		if effects > 1 {
			changed++
		}
		require.Equal(t, canonical(t, ab), canonical(t, ba), "seed %d\n%s: %v\n%s: %v\non %s", seed, rulesA, a, rulesB, b, before)
	}
	assert.Greater(t, tried, rounds, "too few pairs were tried")
	assert.Greater(t, changed, rounds/10, "too few pairs changed the document")
}

func applyBoth(doc map[string]any, first, second []operation.Operation) (map[string]any, int, error) {
	next, one, err := operation.Apply(doc, first)
	if err != nil {
		return nil, 0, err
	}
	next, two, err := operation.Apply(next, second)
	return next, len(one) + len(two), err
}

// canonical encodes a document with sorted lists and without node selector terms that others
// imply.
func canonical(t *testing.T, doc map[string]any) string {
	t.Helper()
	clone := decode(t, encode(t, doc))
	minimize(clone)
	sortLists(clone)
	return encode(t, clone)
}

func minimize(value any) {
	members, _ := value.(map[string]any)
	for name, member := range members {
		if terms, ok := member.([]any); ok && name == "nodeSelectorTerms" {
			members[name] = minimal(terms)
			continue
		}
		minimize(member)
	}
	items, _ := value.([]any)
	for _, item := range items {
		minimize(item)
	}
}

func sortLists(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			sortLists(member)
		}
	case []any:
		for _, item := range v {
			sortLists(item)
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
}

func TestThePlacementPolicyDoesNotConflictWithItself(t *testing.T) {
	placement := rules(t, rule("/spec/affinity/nodeAffinity", contract.VerbRequire), rule("/spec/tolerations", contract.VerbEnsure))
	_, conflict := placement.Conflict(placement)
	assert.False(t, conflict)
}

func TestCompileRejectsChangesOfSelectors(t *testing.T) {
	for name, tc := range map[string]struct {
		op      contract.Operation
		isValid bool
	}{
		"the member itself":                {op: contract.Set("/l[name=x]/name", contract.String("y"))},
		"below the member":                 {op: contract.Set("/l[name=x]/name/first", contract.String("y"))},
		"an item of another name":          {op: raw("set", "/l[name=x]", `{"name":"y"}`)},
		"an item without name":             {op: raw("set", "/l[name=x]", `{"v":1}`)},
		"no item":                          {op: raw("set", "/l[name=x]", `"x"`)},
		"a merge of another name":          {op: raw("merge", "/l[name=x]", `{"name":"y"}`)},
		"a removal of the name":            {op: contract.Remove("/l[name=x]", "v", "name")},
		"an outer selector":                {op: contract.Set("/l[name=x]/m[k=v]/k", contract.String("w"))},
		"an item of the same name":         {op: raw("set", "/l[name=x]", `{"name":"x","v":2}`), isValid: true},
		"a merge of the same name":         {op: raw("merge", "/l[name=x]", `{"name":"x","v":2}`), isValid: true},
		"a removal of the item":            {op: contract.Remove("/l[name=x]"), isValid: true},
		"another member":                   {op: contract.Set("/l[name=x]/v", contract.Int(1)), isValid: true},
		"any name, with all of them":       {op: contract.Set("/l[*]/name", contract.String("y")), isValid: true},
		"the name, selected by the kind":   {op: contract.Set("/l[kind=p]/name", contract.String("y")), isValid: true},
		"the same name in an inner object": {op: contract.Set("/l[name=x]/m/name", contract.String("y")), isValid: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := operation.Compile([]contract.Operation{tc.op})
			if tc.isValid {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, "by which its path selects items")
		})
	}
}

func FuzzConflict(f *testing.F) {
	f.Add(`{"l":[{"name":"x"}]}`, "/l[*]/name", "set", `"y"`, "/l[name=x]/v", "set", `1`)
	f.Add(`{}`, "/l", "ensure", `[{"name":"x"}]`, "/l[*]/tags", "ensure", `["t"]`)
	f.Add(`{}`, "/a/b", "set", `1`, "/a[name=x]/c", "remove", ``)
	f.Add(`{"spec":{}}`, "/spec/tolerations", "ensure", `[{"key":"a"}]`, "/spec/tolerations", "ensure", `[{"key":"b"}]`)
	f.Add(nodeAffinity(`[`+expr("x")+`]`), "/na", "require", `[`+expr("a")+`]`, "/na", "require", `[`+expr("b")+`]`)
	f.Fuzz(func(t *testing.T, text, pathA, verbA, valueA, pathB, verbB, valueB string) {
		decoded, err := jsonvalue.Decode([]byte(text))
		doc, ok := decoded.(map[string]any)
		if err != nil || !ok {
			return
		}
		a, errA := operation.Compile([]contract.Operation{{Op: contract.Verb(verbA), Path: pathA, Value: json.RawMessage(valueA)}})
		b, errB := operation.Compile([]contract.Operation{{Op: contract.Verb(verbB), Path: pathB, Value: json.RawMessage(valueB)}})
		if errA != nil || errB != nil {
			return
		}
		allowedA, errA := operation.CompileRules([]contract.WriteRule{{Path: pathA, Verbs: []contract.Verb{contract.Verb(verbA)}}})
		allowedB, errB := operation.CompileRules([]contract.WriteRule{{Path: pathB, Verbs: []contract.Verb{contract.Verb(verbB)}}})
		require.NoError(t, errA)
		require.NoError(t, errB)
		require.NoError(t, allowedA.Check(&a[0]))
		_, conflict := allowedA.Conflict(allowedB)
		_, reverse := allowedB.Conflict(allowedA)
		require.Equal(t, conflict, reverse, "conflicts are symmetric")
		if conflict || verbA == "require" {
			return // requires are compared by their meaning, in TestRequireMeansAnd
		}
		ab, _, errAB := applyBoth(doc, a, b)
		ba, _, errBA := applyBoth(doc, b, a)
		require.Equal(t, errAB == nil, errBA == nil, "%v and %v", errAB, errBA)
		if errAB == nil {
			sortLists(ab)
			sortLists(ba)
			require.Equal(t, encode(t, ab), encode(t, ba))
		}
	})
}
