package operation_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func rule(path string, verbs ...contract.Verb) contract.WriteRule {
	return contract.WriteRule{Path: path, Verbs: verbs}
}

func keyed(path string, keys []string, verbs ...contract.Verb) contract.WriteRule {
	return contract.WriteRule{Path: path, Verbs: verbs, Keys: keys}
}

func rules(t *testing.T, source ...contract.WriteRule) operation.Rules {
	t.Helper()
	compiled, err := operation.CompileRules(source)
	require.NoError(t, err)
	return compiled
}

func compile(t *testing.T, source ...contract.Operation) []operation.Operation {
	t.Helper()
	compiled, err := operation.Compile(source)
	require.NoError(t, err)
	return compiled
}

func TestCheck(t *testing.T) {
	labels := rules(t, keyed("/metadata/labels", []string{"a", "b"}, contract.VerbMerge, contract.VerbRemove),
		rule("/spec/containers[*]/image", contract.VerbSet),
		rule("/spec/tolerations", contract.VerbEnsure))
	for name, tc := range map[string]struct {
		op      contract.Operation
		refused *operation.NotAllowedError
	}{
		"a declared key":               {op: contract.Remove("/metadata/labels", "a")},
		"merge of declared keys":       {op: contract.Merge("/metadata/labels", contract.StringMap{"a": "1", "b": "2"})},
		"one item of all":              {op: contract.Set("/spec/containers[name=web]/image", contract.String("x"))},
		"an undeclared key":            {op: contract.Remove("/metadata/labels", "a", "c"), refused: &operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/metadata/labels", Keys: []string{"a", "c"}}},
		"merge of an undeclared key":   {op: contract.Merge("/metadata/labels", contract.StringMap{"c": "1"}), refused: &operation.NotAllowedError{Verb: contract.VerbMerge, Path: "/metadata/labels", Keys: []string{"c"}}},
		"the whole map of some keys":   {op: contract.Remove("/metadata/labels"), refused: &operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/metadata/labels"}},
		"a key in the path":            {op: contract.Remove("/metadata/labels/a"), refused: &operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/metadata/labels/a"}},
		"another verb":                 {op: contract.Set("/spec/tolerations", contract.Raw("[]")), refused: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/tolerations"}},
		"a parent of an allowed field": {op: contract.Set("/spec", contract.Raw("{}")), refused: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec"}},
		"items that no rule selects":   {op: contract.Ensure("/spec/tolerations[key=a]/x", contract.String("y")), refused: &operation.NotAllowedError{Verb: contract.VerbEnsure, Path: "/spec/tolerations[key=a]/x", Example: "/spec/tolerations[*]/x"}},
		"a sibling":                    {op: contract.Set("/spec/containers[name=web]/command", contract.Raw("[]")), refused: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec/containers[name=web]/command"}},
	} {
		t.Run(name, func(t *testing.T) { refuses(t, tc.refused, labels, labels.Check(&compile(t, tc.op)[0])) })
	}
	refuses(t, &operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/a"}, nil, operation.Rules(nil).Check(&compile(t, contract.Remove("/a"))[0]))
}

// refuses asserts that the rules allow a write (nil), or why they refuse it.
func refuses(t *testing.T, want *operation.NotAllowedError, rules operation.Rules, err error) {
	t.Helper()
	if want == nil {
		assert.NoError(t, err)
		return
	}
	refused, ok := errors.AsType[*operation.NotAllowedError](err)
	require.True(t, ok, "%v", err)
	want.Allowed = rules.String()
	assert.Equal(t, want, refused)
}

func TestARefusedWriteSaysWhatIsAllowed(t *testing.T) {
	refused := operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/a", Keys: []string{"k", "l"}, Allowed: operation.Rules(nil).String()}
	require.EqualError(t, &refused, "remove /a [k l] is not allowed, only nothing")
	refused = operation.NotAllowedError{Verb: contract.VerbEnsure, Path: "/a[k=v]/b", Allowed: "ensure /a", Example: "/a[*]/b"}
	require.EqualError(t, &refused, "ensure /a[k=v]/b is not allowed, only ensure /a: a rule allows ensure in list items only if its path selects them, for example /a[*]/b")
}

func TestCompileRulesRejectsInvalidRules(t *testing.T) {
	for name, tc := range map[string]struct {
		rule    contract.WriteRule
		wantErr string
	}{
		"a bad path":         {rule: rule("spec", contract.VerbSet), wantErr: "must begin with a slash"},
		"no verb":            {rule: rule("/spec"), wantErr: "allows no verb"},
		"an unknown verb":    {rule: rule("/spec", "copy"), wantErr: `unknown verb "copy"`},
		"keys with set":      {rule: keyed("/spec", []string{"a"}, contract.VerbSet), wantErr: "with merge and remove only"},
		"an empty key":       {rule: keyed("/spec", []string{""}, contract.VerbMerge), wantErr: "a key is empty"},
		"an index in a path": {rule: rule("/spec/containers/0/image", contract.VerbSet), wantErr: "is an index"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := operation.CompileRules([]contract.WriteRule{tc.rule})
			require.ErrorContains(t, err, tc.wantErr)
		})
	}
}

func TestWithin(t *testing.T) {
	bound := rules(t, rule("/spec/affinity", contract.VerbEnsure, contract.VerbSet),
		keyed("/metadata/labels", []string{"a", "b"}, contract.VerbRemove))
	for name, tc := range map[string]struct {
		inner   contract.WriteRule
		refused *operation.NotAllowedError
	}{
		"below, fewer verbs": {inner: rule("/spec/affinity/podAntiAffinity", contract.VerbEnsure)},
		"fewer keys":         {inner: keyed("/metadata/labels", []string{"a"}, contract.VerbRemove)},
		"another verb":       {inner: rule("/spec/affinity", contract.VerbRemove), refused: &operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/spec/affinity"}},
		"above":              {inner: rule("/spec", contract.VerbSet), refused: &operation.NotAllowedError{Verb: contract.VerbSet, Path: "/spec"}},
		"every key":          {inner: rule("/metadata/labels", contract.VerbRemove), refused: &operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/metadata/labels"}},
		"another key":        {inner: keyed("/metadata/labels", []string{"c"}, contract.VerbRemove), refused: &operation.NotAllowedError{Verb: contract.VerbRemove, Path: "/metadata/labels", Keys: []string{"c"}}},
	} {
		t.Run(name, func(t *testing.T) { refuses(t, tc.refused, bound, rules(t, tc.inner).Within(bound)) })
	}
}

func TestConflict(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b contract.WriteRule
		want string
	}{
		"ensure and ensure":                {a: rule("/a", contract.VerbEnsure), b: rule("/a", contract.VerbEnsure)},
		"require and require":              {a: rule("/a", contract.VerbRequire), b: rule("/a", contract.VerbRequire)},
		"merges of different keys":         {a: keyed("/a", []string{"x"}, contract.VerbMerge), b: keyed("/a", []string{"y"}, contract.VerbMerge)},
		"different fields":                 {a: rule("/a", contract.VerbSet), b: rule("/b", contract.VerbSet)},
		"different items":                  {a: rule("/l[name=x]", contract.VerbSet), b: rule("/l[name=y]", contract.VerbSet)},
		"ensure in items that ensure adds": {a: rule("/l", contract.VerbEnsure), b: rule("/l[*]/tags", contract.VerbEnsure), want: "/l[*]/tags"},
		"ensure in all and one item":       {a: rule("/l[*]/tags", contract.VerbEnsure), b: rule("/l[name=x]/tags", contract.VerbEnsure)},
		"a rename and a selection":         {a: rule("/l[*]/name", contract.VerbSet), b: rule("/l[name=x]/v", contract.VerbSet), want: "/l[*]/name"},
		"a rename of selected items":       {a: rule("/l[kind=p]/name", contract.VerbSet), b: rule("/l[name=x]/v", contract.VerbSet), want: "/l[kind=p]/name"},
		"a rename by key":                  {a: keyed("/l[*]", []string{"name"}, contract.VerbMerge), b: keyed("/l[name=x]", []string{"v"}, contract.VerbMerge), want: "/l[*]"},
		"an object and a list":             {a: rule("/a/b", contract.VerbSet), b: rule("/a[name=x]/c", contract.VerbRemove), want: "/a[name=x]/c"},
		"set and set":                      {a: rule("/a", contract.VerbSet), b: rule("/a", contract.VerbSet), want: "/a"},
		"set above ensure":                 {a: rule("/a", contract.VerbSet), b: rule("/a/b", contract.VerbEnsure), want: "/a/b"},
		"merges of any keys":               {a: rule("/a", contract.VerbMerge), b: rule("/a", contract.VerbMerge), want: "/a"},
		"merge and remove of one key":      {a: keyed("/a", []string{"x"}, contract.VerbMerge), b: keyed("/a", []string{"x", "y"}, contract.VerbRemove), want: "/a"},
		"merge of a key and the whole":     {a: keyed("/a", []string{"x"}, contract.VerbMerge), b: rule("/a", contract.VerbRemove), want: "/a"},
		"one verb of several":              {a: rule("/a", contract.VerbEnsure, contract.VerbSet), b: rule("/a", contract.VerbEnsure), want: "/a"},
	} {
		t.Run(name, func(t *testing.T) {
			path, conflict := rules(t, tc.a).Conflict(rules(t, tc.b))
			assert.Equal(t, tc.want != "", conflict)
			assert.Equal(t, tc.want, path)
			reverse, _ := rules(t, tc.b).Conflict(rules(t, tc.a))
			assert.Equal(t, path, reverse, "conflicts are symmetric")
		})
	}
}
