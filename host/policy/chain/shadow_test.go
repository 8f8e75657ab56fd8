package chain_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// watcher keeps the observations of Shadow policies.
type watcher struct{ seen []chain.Observation }

func (w *watcher) Observe(o chain.Observation) {
	if o.Shadow {
		w.seen = append(w.seen, o)
	}
}

func shadowOf(p *policytest.Policy) chain.Binding {
	b := bind(p)
	b.Mode = chain.Shadow
	return b
}

const podObject = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"remote","labels":{"a":"1"}},"spec":{"hostname":"h","nodeSelector":{"x":"y"}}}`

func evaluateShadow(t *testing.T, bindings ...chain.Binding) (*chain.Result, []chain.Observation) {
	t.Helper()
	seen := &watcher{}
	input := podInput(podObject)
	input.Match.Namespace = "local"
	result, err := swapped(t, chain.Options{Observer: seen}, bindings...).Evaluate(t.Context(), input)
	require.NoError(t, err)
	return result, seen.seen
}

func TestAShadowReportsDifferencesAndChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		answer answerFunc
		want   *chain.Difference
		outc   chain.Outcome
		class  engine.Class
	}{
		"a change": {answer: answers(contract.Set("/spec/hostname", contract.String("secret")), contract.Merge("/spec/nodeSelector", contract.StringMap{"z": "secret"})),
			want: &chain.Difference{Effects: []operation.Effect{{Verb: "set", Path: "/spec/hostname"}, {Verb: "merge", Path: "/spec/nodeSelector", Keys: []string{"z"}}}}, outc: chain.Answered},
		"no change": {answer: answers(contract.Set("/spec/hostname", contract.String("h"))), outc: chain.Answered},
		"a denial": {answer: func(contract.Request) (contract.Response, error) {
			return contract.Response{Deny: &contract.Denial{Reason: "TooBig", Message: "secret"}}, nil
		}, want: &chain.Difference{Denied: "TooBig"}, outc: chain.Refused},
		"a failure":           {answer: fails("no clue"), outc: chain.Failed, class: engine.Guest},
		"an undeclared write": {answer: answers(contract.Remove("/metadata/labels")), outc: chain.Failed, class: chain.Undeclared},
	} {
		t.Run(name, func(t *testing.T) {
			shadow := shadowOf(policy("shadow", nil, writes("/spec", contract.Verbs()...), tc.answer))
			result, seen := evaluateShadow(t, shadow)
			assert.False(t, result.Changed)
			assert.JSONEq(t, podObject, encoded(t, result.Object))
			assert.Empty(t, result.Decisions, "it is not applied")
			assert.Empty(t, result.Warnings)
			assert.Nil(t, result.Denial)
			require.Len(t, seen, 1)
			assert.Equal(t, tc.outc, seen[0].Outcome)
			if tc.want != nil {
				tc.want.Kind, tc.want.Namespace, tc.want.Name = "Pod", "local", "web"
			}
			assert.Equal(t, tc.want, seen[0].Difference)
			assert.Equal(t, tc.class, seen[0].Class)
			if tc.class == "" {
				assert.NoError(t, seen[0].Err)
			} else {
				assert.ErrorIs(t, seen[0].Err, tc.class)
			}
		})
	}
}

func TestAShadowGetsTheObjectAtItsPlaceInTheOrder(t *testing.T) {
	first := bind(policy("first", nil, writes("/spec/hostname", "set"), answers(contract.Set("/spec/hostname", contract.String("first")))))
	first.Order = order(1)
	var got []string
	shadow := func(name string, at *int) chain.Binding {
		b := shadowOf(policy(name, []string{"/object/spec/hostname"}, writes("/spec/hostname", "set"), func(r contract.Request) (contract.Response, error) {
			got = append(got, name+" "+string(r.Facts))
			return contract.Response{Operations: []contract.Operation{contract.Set("/spec/hostname", contract.String(name))}}, nil
		}))
		b.Order = at
		return b
	}
	result, seen := evaluateShadow(t, shadow("last", nil), first, shadow("before", order(0)))
	assert.Equal(t, []string{`before {"object":{"spec":{"hostname":"h"}}}`, `last {"object":{"spec":{"hostname":"first"}}}`}, got)
	assert.Equal(t, []string{"first"}, []string{result.Decisions[0].Binding})
	assert.Equal(t, "first", result.Object["spec"].(map[string]any)["hostname"])
	assert.Len(t, seen, 2)
}

func TestAShadowIsComparedWithTheEnforcedPolicyOfItsName(t *testing.T) {
	enforced := bind(policy("p", nil, writes("/spec", contract.Verbs()...), answers(
		contract.Set("/spec/hostname", contract.String("new")), contract.Merge("/spec/nodeSelector", contract.StringMap{"z": "1"}))))
	for name, tc := range map[string]struct {
		answer answerFunc
		want   []operation.Effect
	}{
		"the same":       {answer: answers(contract.Set("/spec/hostname", contract.String("new")), contract.Merge("/spec/nodeSelector", contract.StringMap{"z": "1"}))},
		"another value":  {answer: answers(contract.Set("/spec/hostname", contract.String("newer")), contract.Merge("/spec/nodeSelector", contract.StringMap{"z": "1"})), want: []operation.Effect{{Verb: "set", Path: "/spec/hostname"}}},
		"less and other": {answer: answers(contract.Remove("/spec/hostname"), contract.Set("/spec/tolerations", contract.Raw(`[{"key":"k"}]`))), want: []operation.Effect{{Verb: "remove", Path: "/spec/hostname"}, {Verb: "remove", Path: "/spec/nodeSelector/z"}, {Verb: "set", Path: "/spec/tolerations"}}},
	} {
		t.Run(name, func(t *testing.T) {
			shadow := shadowOf(policy("shadow", nil, writes("/spec", contract.Verbs()...), tc.answer))
			shadow.Name = "p"
			result, seen := evaluateShadow(t, shadow, enforced)
			assert.Equal(t, "new", result.Object["spec"].(map[string]any)["hostname"])
			require.Len(t, seen, 1)
			if tc.want == nil {
				assert.Nil(t, seen[0].Difference)
				return
			}
			assert.Equal(t, tc.want, seen[0].Difference.Effects)
		})
	}
}

func TestAFailingShadowIsQuarantined(t *testing.T) {
	p := newFlaky("p", "1")
	p.isFailing.Store(true)
	b := bind(p)
	b.Mode = chain.Shadow
	w := newFixture(t, b)
	for range 10 {
		result, err := w.evaluate()
		require.NoError(t, err)
		assert.Empty(t, result.Warnings)
	}
	assert.Equal(t, 3, p.Calls())
	assert.True(t, w.health().Quarantined())
}
