package chain_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func guards(key string) bool { return strings.HasPrefix(key, "runtime.example/") }

func TestGuardedKeysNeedAGrant(t *testing.T) {
	const annotations = "/metadata/annotations"
	keys := func(path string, keys ...string) []contract.WriteRule {
		verbs := contract.Verbs()
		if len(keys) > 0 {
			verbs = []contract.Verb{contract.VerbMerge, contract.VerbRemove}
		}
		return []contract.WriteRule{{Path: path, Verbs: verbs, Keys: keys}}
	}
	sets := contract.Merge(annotations, contract.StringMap{"runtime.example/hook": "x"})
	for name, tc := range map[string]struct {
		object    string
		operation contract.Operation
		allow     []contract.WriteRule
		refused   bool
	}{
		"set without a grant":          {`{}`, sets, nil, true},
		"changed without a grant":      {`{"metadata":{"annotations":{"runtime.example/hook":"y"}}}`, sets, nil, true},
		"a grant of all annotations":   {`{}`, sets, keys(annotations), true},
		"as one value without a grant": {`{}`, contract.Set(annotations, contract.StringMap{"runtime.example/hook": "x"}), nil, true},
		"a label without a grant":      {`{}`, contract.Merge("/metadata/labels", contract.StringMap{"runtime.example/hook": "x"}), nil, true},
		"granted by its key":           {`{}`, sets, keys(annotations, "runtime.example/hook"), false},
		"granted by its path":          {`{}`, contract.Set(annotations+"/runtime.example~1hook", contract.String("x")), keys(annotations + "/runtime.example~1hook"), false},
		"unchanged":                    {`{"metadata":{"annotations":{"runtime.example/hook":"x"}}}`, sets, nil, false},
		"removed":                      {`{"metadata":{"annotations":{"runtime.example/hook":"x"}}}`, contract.Remove(annotations, "runtime.example/hook"), nil, false},
		"another annotation":           {`{}`, contract.Merge(annotations, contract.StringMap{"note": "x"}), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy("p", nil, []contract.WriteRule{
				{Path: annotations, Verbs: contract.Verbs()}, {Path: "/metadata/labels", Verbs: contract.Verbs()},
			}, answers(tc.operation))
			binding := bind(p)
			binding.Allow.Writes = tc.allow
			chains := swapped(t, chain.Options{GuardedKey: guards}, binding)
			_, err := chains.Evaluate(t.Context(), podInput(tc.object))
			if !tc.refused {
				require.NoError(t, err)
				return
			}
			var failure *chain.PolicyError
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, chain.Undeclared, failure.Class)
			assert.Contains(t, err.Error(), `["runtime.example/hook"], on which runtimes, networks or clouds act: an operator can grant that by naming the key in spec.allow.writes[].keys`)
		})
	}
}

// evil has a terminal escape, a forged log line and a bidirectional control character.
const evil = "a\x1b[2Jb\nlevel=error c\u202ed\x00\u009b"

func plain(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		assert.NotContains(t, text, "\x1b")
		assert.Negative(t, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", text)
	}
}

func TestTextsOfPoliciesArePlain(t *testing.T) {
	denies := policy("p", nil, nil, func(contract.Request) (contract.Response, error) {
		return contract.Response{Deny: &contract.Denial{Reason: evil, Message: evil}, Warnings: []string{evil}}, nil
	})
	result, err := swapped(t, chain.Options{}, bind(denies)).Evaluate(t.Context(), podInput(`{}`))
	require.NoError(t, err)
	plain(t, result.Denial.Error(), result.Denial.Reason, result.Denial.Message)
	plain(t, result.Warnings...)
	assert.Contains(t, result.Denial.Message, "a [2Jb level=error c d")

	skips := at(contract.ResourceMutation, "p", nil, nil, func(contract.Request) (contract.Response, error) {
		return contract.Response{Skip: &contract.Skip{Reason: evil, Message: evil}}, nil
	})
	in := podInput(`{}`)
	in.Point, in.Moment = contract.ResourceMutation, ""
	result, err = swapped(t, chain.Options{}, bind(skips)).Evaluate(t.Context(), in)
	require.NoError(t, err)
	plain(t, result.Denial.Error())
}

func TestFailuresOfPoliciesArePlainAndBounded(t *testing.T) {
	for name, answer := range map[string]answerFunc{
		"an error": fails(evil + strings.Repeat("x", 1<<20)),
		"a path":   answers(contract.Set("/"+evil, contract.String("x"))),
		"a key":    answers(contract.Remove("/spec", evil)),
	} {
		t.Run(name, func(t *testing.T) {
			binding := bind(policy("p", nil, writes("/spec/hostname", "set"), answer))
			chains := swapped(t, chain.Options{}, binding)
			_, err := chains.Evaluate(t.Context(), podInput(`{}`))
			var failure *chain.PolicyError
			require.ErrorAs(t, err, &failure)
			plain(t, failure.Error(), chains.Health()[0].Last)
			assert.Less(t, len(failure.Error()), 5<<10)

			binding.FailurePolicy = chain.Ignore
			result, err := swapped(t, chain.Options{}, binding).Evaluate(t.Context(), podInput(`{}`))
			require.NoError(t, err)
			plain(t, append(result.Warnings, result.Decisions[0].Ignored)...)
		})
	}
}

func TestReservedKeysAreReportedInPlainText(t *testing.T) {
	p := policy("p", nil, writes("/metadata/labels", "merge"), answers(contract.Merge("/metadata/labels", contract.StringMap{"reserved/" + evil: "x"})))
	chains := swapped(t, chain.Options{ReservedKey: func(key string) bool { return strings.HasPrefix(key, "reserved/") }}, bind(p))
	result, err := chains.Evaluate(t.Context(), podInput(`{}`))
	require.NoError(t, err)
	assert.False(t, result.Changed)
	plain(t, append(result.Warnings, result.Decisions[0].Kept...)...)
}

func TestSettingsAreBounded(t *testing.T) {
	for name, tc := range map[string]struct{ settings, want string }{
		"too deep": {`{"a":` + strings.Repeat(`[`, 100_000) + strings.Repeat(`]`, 100_000) + `}`, "nested 100001 deep, more than 32; the operator must flatten them"},
		"too long": {`{"a":"` + strings.Repeat("a", contract.MaxSettingsBytes) + `"}`, "the operator must shorten them"},
	} {
		t.Run(name, func(t *testing.T) {
			binding := bind(policy("p", nil, nil, answers()))
			binding.Settings = []byte(tc.settings)
			err := chain.Check([]chain.Binding{binding})
			var refused *chain.BindingError
			require.ErrorAs(t, err, &refused)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
