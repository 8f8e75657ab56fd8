package operation_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// source makes random documents and operations with few names, so that they interact.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 1))} }

func (s source) pick(words ...string) string { return words[s.IntN(len(words))] }

func (s source) doc() string {
	var members []string
	if s.IntN(3) > 0 {
		members = append(members, `"map":`+s.object())
	}
	if s.IntN(3) > 0 {
		members = append(members, `"list":`+s.list())
	}
	if s.IntN(3) > 0 {
		members = append(members, `"na":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":`+s.terms()+`}}`)
	}
	return `{` + strings.Join(members, ",") + `}`
}

func (s source) object() string {
	members := map[string]int{}
	for range s.IntN(4) {
		members[s.pick("a", "b", "c", "d")] = s.IntN(3)
	}
	data, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (s source) list() string {
	var items []string
	for range s.IntN(4) {
		items = append(items, fmt.Sprintf(`{"name":%q,"v":%d}`, s.pick("x", "y"), s.IntN(3)))
	}
	return `[` + strings.Join(items, ",") + `]`
}

func (s source) terms() string {
	var terms []string
	for range 1 + s.IntN(3) {
		var labels, fields []string
		for range s.IntN(3) {
			labels = append(labels, requirement(s.pick("a", "b", "c")))
		}
		for range s.IntN(2) {
			fields = append(fields, requirement(s.pick("f", "g")))
		}
		terms = append(terms, fmt.Sprintf(`{"matchExpressions":[%s],"matchFields":[%s]}`, strings.Join(labels, ","), strings.Join(fields, ",")))
	}
	return `[` + strings.Join(terms, ",") + `]`
}

func (s source) operation() contract.Operation {
	switch s.IntN(7) {
	case 0:
		return raw("set", s.pick("/map", "/map/a", "/new/a"), s.object())
	case 1:
		return raw("set", s.pick("/list[*]/v", "/list[name=x]/v", "/list[name=z]/v"), "7")
	case 2:
		return contract.Remove("/map", s.pick("a", "b"), s.pick("c", "d"))
	case 3:
		return contract.Remove(s.pick("/map", "/list[name=x]", "/list", "/list[*]/v"))
	case 4:
		return raw("merge", "/map", s.object())
	case 5:
		return raw("ensure", "/list", s.list())
	default:
		return raw("require", "/na", s.terms())
	}
}

const rounds = 2000

func forAll(t *testing.T, check func(t *testing.T, s source) bool) {
	t.Helper()
	for seed := range uint64(rounds) {
		if !check(t, newSource(seed)) {
			t.Fatalf("does not hold for seed %d", seed)
		}
	}
}

// apply reports false if the operation cannot be applied to the document.
func apply(t *testing.T, doc map[string]any, op contract.Operation) (map[string]any, bool) {
	t.Helper()
	got, _, err := operation.Apply(doc, compile(t, op))
	return got, err == nil
}

func TestOperationsAreIdempotentAndDoNotAlterTheirInput(t *testing.T) {
	forAll(t, func(t *testing.T, s source) bool {
		t.Helper()
		doc, op := decode(t, s.doc()), s.operation()
		before := encode(t, doc)
		once, applies := apply(t, doc, op)
		if !assert.Equal(t, before, encode(t, doc), op) || !applies {
			return applies || !t.Failed()
		}
		first := encode(t, once)
		twice, effects, err := operation.Apply(once, compile(t, op))
		require.NoError(t, err)
		return assert.Equal(t, first, encode(t, twice), op) && assert.Empty(t, effects, op) && assert.Equal(t, first, encode(t, once), op)
	})
}

func TestPairsWithoutConflictCommute(t *testing.T) {
	tried := 0
	forAll(t, func(t *testing.T, s source) bool {
		t.Helper()
		doc, a, b := decode(t, s.doc()), s.operation(), s.operation()
		if _, conflict := rules(t, narrowest(a)).Conflict(rules(t, narrowest(b))); conflict {
			return true
		}
		ab, applies := apply(t, doc, a)
		if applies {
			ab, applies = apply(t, ab, b)
		}
		if !applies {
			return true
		}
		ba, applies := apply(t, doc, b)
		require.True(t, applies)
		ba, applies = apply(t, ba, a)
		require.True(t, applies)
		tried++
		return assert.Equal(t, normal(t, ab), normal(t, ba), "%v then %v on %s", a, b, encode(t, doc))
	})
	assert.Greater(t, tried, rounds/10, "too few pairs were tried")
}

// narrowest returns the rule that allows only the operation.
func narrowest(op contract.Operation) contract.WriteRule {
	rule := contract.WriteRule{Path: op.Path, Verbs: []contract.Verb{op.Op}, Keys: op.Keys}
	if op.Op == contract.VerbMerge {
		var members map[string]any
		if err := json.Unmarshal(op.Value, &members); err != nil {
			panic(err)
		}
		for key := range members {
			rule.Keys = append(rule.Keys, key)
		}
	}
	return rule
}

// normal encodes a document so that equivalent documents are equal: with sorted lists, and
// node selector terms as a set without those that others imply.
func normal(t *testing.T, doc map[string]any) string {
	t.Helper()
	clone := decode(t, encode(t, doc))
	if list, ok := clone["list"].([]any); ok {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	if affinity, ok := clone["na"].(map[string]any); ok {
		required := affinity["requiredDuringSchedulingIgnoredDuringExecution"].(map[string]any)
		affinity["requiredDuringSchedulingIgnoredDuringExecution"] = minimal(required["nodeSelectorTerms"].([]any))
	}
	return encode(t, clone)
}

func minimal(terms []any) []any {
	var sets [][]string
	for _, term := range terms {
		var set []string
		for field, list := range term.(map[string]any) {
			for _, item := range list.([]any) {
				set = append(set, field+item.(map[string]any)["key"].(string))
			}
		}
		slices.Sort(set)
		if set = slices.Compact(set); len(set) > 0 {
			sets = append(sets, set)
		}
	}
	var out []any
	for i, set := range sets {
		implied := slices.ContainsFunc(sets[:i], func(other []string) bool { return slices.Equal(other, set) })
		for j, other := range sets {
			contains := !slices.ContainsFunc(other, func(word string) bool { return !slices.Contains(set, word) })
			implied = implied || (i != j && contains && len(other) < len(set))
		}
		if !implied {
			out = append(out, strings.Join(set, " "))
		}
	}
	slices.SortFunc(out, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return out
}

// A node matches after a require exactly if it matched before and matches one of the new
// terms.
func TestRequireMeansAnd(t *testing.T) {
	forAll(t, func(t *testing.T, s source) bool {
		t.Helper()
		doc, added := decode(t, nodeAffinity(s.terms())), s.terms()
		got, applies := apply(t, doc, raw("require", "/na", added))
		require.True(t, applies)
		value := decode(t, nodeAffinity(added))
		for node := range 1 << 5 {
			want := passes(doc, node) && passes(value, node)
			if !assert.Equal(t, want, passes(got, node), "node %b: %s and %s gave %s", node, encode(t, doc), added, encode(t, got)) {
				return false
			}
		}
		return true
	})
}

// passes reports whether a node with the properties of the bit mask matches.
func passes(doc map[string]any, node int) bool {
	required := doc["na"].(map[string]any)["requiredDuringSchedulingIgnoredDuringExecution"].(map[string]any)
	for _, item := range required["nodeSelectorTerms"].([]any) {
		matches, hasRequirement := true, false
		for _, field := range []string{"matchExpressions", "matchFields"} {
			list, _ := item.(map[string]any)[field].([]any)
			for _, requirement := range list {
				hasRequirement = true
				bit := strings.Index("abcfg", requirement.(map[string]any)["key"].(string))
				matches = matches && node&(1<<bit) != 0
			}
		}
		if matches && hasRequirement {
			return true
		}
	}
	return false
}

// The seeds are the operations of the golden vectors on the vectors' objects, and others.
func FuzzApply(f *testing.F) {
	all, err := vectors.All()
	require.NoError(f, err)
	for i := range all {
		var response contract.Response
		if len(all[i].Object) == 0 || json.Unmarshal(all[i].Response, &response) != nil {
			continue
		}
		for _, op := range response.Operations {
			f.Add(string(all[i].Object), string(op.Op), op.Path, strings.Join(op.Keys, ""), string(op.Value))
		}
	}
	f.Add(`{"spec":{"containers":[{"name":"web"}]}}`, "set", "/spec/containers[name=web]/image", "", `"x"`)
	f.Add(`{"metadata":{"labels":{"a":"b"}}}`, "remove", "/metadata/labels", "a", "")
	f.Add(`{"spec":{}}`, "merge", "/spec/nodeSelector", "", `{"pool":"gpu"}`)
	f.Add(`{"spec":{"tolerations":null}}`, "ensure", "/spec/tolerations", "", `[{"key":"x~1"}]`)
	f.Add(nodeAffinity(`[`+expr("x")+`]`), "require", "/na", "", `[`+expr("a")+`]`)
	f.Fuzz(func(t *testing.T, text, verb, path, key, value string) {
		decoded, err := jsonvalue.Decode([]byte(text))
		if err != nil {
			return
		}
		doc, ok := decoded.(map[string]any)
		if !ok {
			return
		}
		source := contract.Operation{Op: contract.Verb(verb), Path: path, Value: json.RawMessage(value)}
		if key != "" {
			source.Keys = []string{key}
		}
		ops, err := operation.Compile([]contract.Operation{source})
		if err != nil {
			return
		}
		before := encode(t, doc)
		got, effects, err := operation.Apply(doc, ops)
		require.Equal(t, before, encode(t, doc))
		if err != nil {
			return
		}
		require.Equal(t, len(effects) > 0, !document.Equal(doc, got))
		again, effects, err := operation.Apply(got, ops)
		require.NoError(t, err)
		require.Empty(t, effects)
		require.Equal(t, encode(t, got), encode(t, again))
	})
}
