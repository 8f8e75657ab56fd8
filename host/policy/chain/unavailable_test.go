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

// matchWith is a matcher of a function.
type matchWith func(chain.Attributes) (bool, error)

func (m matchWith) Matches(_ context.Context, a chain.Attributes) (bool, error) { return m(a) }

var errGone = errors.New("ConfigMap longshore/module does not exist")

// unavailable is a binding of which nobody can be asked.
func unavailable(p chain.Policy, failurePolicy chain.FailurePolicy) chain.Binding {
	b := bind(p)
	b.Name, b.FailurePolicy, b.Unavailable = "mine", failurePolicy, errGone
	return b
}

func TestWhoCannotBeAskedIsDecidedByTheFailurePolicy(t *testing.T) {
	before := newPatient("custom", "v1")
	behind := bind(before)
	for name, tc := range map[string]struct {
		failurePolicy chain.FailurePolicy
		wantRefused   bool
		wantOutcome   chain.Outcome
	}{
		"nothing said": {wantRefused: true, wantOutcome: chain.Failed},
		"Fail":         {failurePolicy: chain.Fail, wantRefused: true, wantOutcome: chain.Failed},
		"LastGood is Fail, whatever stands behind": {failurePolicy: chain.LastGood, wantRefused: true, wantOutcome: chain.Failed},
		"Ignore passes and says so":                {failurePolicy: chain.Ignore, wantOutcome: chain.Skipped},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatient("custom", "v1")
			b := unavailable(p, tc.failurePolicy)
			b.Fallback = &behind
			w := newWard(t, b)
			for range 10 {
				result, err := w.ask()
				if tc.wantRefused {
					failure, ok := errors.AsType[*chain.PolicyError](err)
					require.True(t, ok, "%v", err)
					assert.Equal(t, chain.Unavailable, failure.Class)
					require.ErrorIs(t, err, errGone)
					require.ErrorIs(t, err, chain.Unavailable)
					assert.Equal(t, `policy "mine" (module custom, `+chain.ShortDigest(p.Digest())+`) was in force and cannot be used now, so nobody answers at PodMutation/Offload: ConfigMap longshore/module does not exist; an operator must put that right, or set spec.failurePolicy or spec.mode of OffloadingPolicy "mine", or of the ConfigMap it is kept from, meanwhile`, err.Error())
					continue
				}
				require.NoError(t, err)
				assert.False(t, result.Changed)
				require.Len(t, result.Decisions, 1)
				assert.Equal(t, errGone.Error(), result.Decisions[0].Ignored)
				require.Len(t, result.Warnings, 1)
				assert.Contains(t, result.Warnings[0], `policy "mine"`)
			}
			assert.Zero(t, p.Calls(), "nobody is asked")
			assert.Zero(t, before.Calls(), "nor the version before")
			assert.Zero(t, w.news, "however often, it is no failure of the policy and no quarantine")
			assert.False(t, w.chains.Health()[0].Quarantined())
			assert.Equal(t, tc.wantOutcome, w.seen[9])
			assert.Zero(t, w.chains.MemoStats().Entries)
		})
	}
}

// It is no answer, so it is not remembered, and what is remembered is no answer to it.
func TestNoMemoryOfAnswersBridgesWhatCannotBeAsked(t *testing.T) {
	p := newPatient("custom", "v1")
	good := bind(p)
	good.Name = "mine"
	w := newWard(t, good)
	answered := func() {
		t.Helper()
		result, err := w.askAbout("web")
		require.NoError(t, err)
		assert.True(t, result.Changed)
	}
	answered()
	require.NoError(t, w.chains.Swap([]chain.Binding{unavailable(p, chain.Fail)}))
	for range 2 {
		_, err := w.askAbout("web")
		require.ErrorIs(t, err, chain.Unavailable)
	}
	require.NoError(t, w.chains.Swap([]chain.Binding{good}))
	answered()
	assert.Equal(t, 1, p.Calls(), "the answer from before is as true as before")
}

func TestWhoCannotBeAskedConcernsItsObjectsAndMomentsOnly(t *testing.T) {
	p := newPatient("custom", "v1")
	p.Manifest().Points[0].Moments = []contract.Moment{contract.MomentOffload}
	b := unavailable(p, chain.Fail)
	var failing error
	b.Match = matchWith(func(a chain.Attributes) (bool, error) { return a.Namespace == "shop", failing })
	w := newWard(t, b)
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
	assert.Equal(t, chain.Host, failure.Class, "who cannot tell whom it concerns says that")
}

func TestWhoCannotBeAskedConflictsWithNobody(t *testing.T) {
	held, other := unavailable(newPatient("custom", "v1"), chain.Fail), bind(newPatient("other", "v1"))
	require.NoError(t, chain.Check([]chain.Binding{held, other}))
	require.NoError(t, chain.Check([]chain.Binding{other, held}))
	held.Unavailable = nil
	require.Error(t, chain.Check([]chain.Binding{held, other}), "they both write the hostname")
}
