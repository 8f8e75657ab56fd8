package chain_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// matchWith is a Matcher of a function.
type matchWith func(chain.Attributes) (bool, error)

func (m matchWith) Matches(_ context.Context, a chain.Attributes) (bool, error) { return m(a) }

var errGone = errors.New("ConfigMap longshore/module does not exist")

// unavailable is a binding of a policy that cannot be called.
func unavailable(p chain.Policy, failurePolicy chain.FailurePolicy) chain.Binding {
	b := bind(p)
	b.Name, b.FailurePolicy, b.Unavailable = "mine", failurePolicy, errGone
	return b
}

func TestFailurePoliciesOfAnUnavailablePolicy(t *testing.T) {
	before := newFlaky("custom", "v1")
	behind := bind(before)
	for name, tc := range map[string]struct {
		failurePolicy chain.FailurePolicy
		wantRefused   bool
		wantOutcome   chain.Outcome
	}{
		"the default":            {wantRefused: true, wantOutcome: chain.Failed},
		"Fail":                   {failurePolicy: chain.Fail, wantRefused: true, wantOutcome: chain.Failed},
		"LastGood is like Fail":  {failurePolicy: chain.LastGood, wantRefused: true, wantOutcome: chain.Failed},
		"Ignore skips and warns": {failurePolicy: chain.Ignore, wantOutcome: chain.Skipped},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFlaky("custom", "v1")
			b := unavailable(p, tc.failurePolicy)
			b.Fallback = &behind
			w := newFixture(t, b)
			for range 10 {
				result, err := w.evaluate()
				if tc.wantRefused {
					failure, ok := errors.AsType[*chain.PolicyError](err)
					require.True(t, ok, "%v", err)
					assert.Equal(t, chain.Unavailable, failure.Class)
					require.ErrorIs(t, err, errGone)
					require.ErrorIs(t, err, chain.Unavailable)
					assert.Equal(t, `policy "mine" (module custom, `+chain.ShortDigest(p.Digest())+`) was enforced before and cannot be used now at PodMutation/Offload: ConfigMap longshore/module does not exist; an operator must correct that; meanwhile, an operator can set spec.failurePolicy or spec.mode of OffloadingPolicy "mine", or of the ConfigMap that defines it`, err.Error())
					continue
				}
				require.NoError(t, err)
				assert.False(t, result.Changed)
				require.Len(t, result.Decisions, 1)
				assert.Equal(t, errGone.Error(), result.Decisions[0].Ignored)
				require.Len(t, result.Warnings, 1)
				assert.Contains(t, result.Warnings[0], `policy "mine"`)
			}
			assert.Zero(t, p.Calls(), "the policy is not called")
			assert.Zero(t, before.Calls(), "the fallback is not called")
			assert.Zero(t, w.notified, "it is not a failure of the policy")
			assert.False(t, w.chains.Health()[0].Quarantined())
			assert.Equal(t, tc.wantOutcome, w.seen[9])
			assert.Zero(t, w.chains.MemoStats().Entries)
		})
	}
}

func TestCachedAnswersAreNotUsedWhileThePolicyIsUnavailable(t *testing.T) {
	p := newFlaky("custom", "v1")
	good := bind(p)
	good.Name = "mine"
	w := newFixture(t, good)
	answered := func() {
		t.Helper()
		result, err := w.evaluatePod("web")
		require.NoError(t, err)
		assert.True(t, result.Changed)
	}
	answered()
	require.NoError(t, w.chains.Swap([]chain.Binding{unavailable(p, chain.Fail)}))
	for range 2 {
		_, err := w.evaluatePod("web")
		require.ErrorIs(t, err, chain.Unavailable)
	}
	require.NoError(t, w.chains.Swap([]chain.Binding{good}))
	answered()
	assert.Equal(t, 1, p.Calls(), "the answer is still cached")
}

func TestAnUnavailablePolicyFailsForItsObjectsAndMomentsOnly(t *testing.T) {
	p := newFlaky("custom", "v1")
	p.Manifest().Points[0].Moments = []contract.Moment{contract.MomentOffload}
	b := unavailable(p, chain.Fail)
	var failing error
	b.Match = matchWith(func(a chain.Attributes) (bool, error) { return a.Namespace == "shop", failing })
	w := newFixture(t, b)
	ask := func(namespace string, moment contract.Moment) error {
		_, err := w.chains.Evaluate(t.Context(), chain.Input{Point: contract.PodMutation, Moment: moment, Match: chain.Attributes{Namespace: namespace}})
		return err
	}
	require.NoError(t, ask("other", contract.MomentOffload))
	require.NoError(t, ask("shop", contract.MomentAdmission))
	require.ErrorIs(t, ask("shop", contract.MomentOffload), chain.Unavailable)
	failing = errors.New("no connection")
	failure, ok := errors.AsType[*chain.PolicyError](ask("shop", contract.MomentOffload))
	require.True(t, ok)
	assert.Equal(t, chain.Host, failure.Class, "matching failed")
}

func TestAnUnavailablePolicyHasNoConflicts(t *testing.T) {
	held, other := unavailable(newFlaky("custom", "v1"), chain.Fail), bind(newFlaky("other", "v1"))
	require.NoError(t, chain.Check([]chain.Binding{held, other}))
	require.NoError(t, chain.Check([]chain.Binding{other, held}))
	held.Unavailable = nil
	require.Error(t, chain.Check([]chain.Binding{held, other}), "both write the hostname")
}
