package chain_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/policytest"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// flakyPolicy is a policy that fails while isFailing is set.
type flakyPolicy struct {
	*policytest.Policy
	isFailing atomic.Bool
	failure   error
	hook      func()
}

func newFlaky(name, version string) *flakyPolicy {
	p := &flakyPolicy{failure: &engine.CallError{
		Module: name, Point: "pod_mutation", Class: engine.Trap, Err: errors.New("the module crashed: unreachable; its author must correct it; it wrote: panic: boom"),
	}}
	p.Policy = policytest.Native(name, contract.Manifest{Version: version, Points: []contract.PointManifest{{
		Point: contract.PodMutation, Reads: []string{"/object/metadata/name"}, Writes: writes("/spec/hostname", "set"),
	}}}, map[contract.Point]func(contract.Request) (contract.Response, error){
		contract.PodMutation: answers(contract.Set("/spec/hostname", contract.String(version))),
	})
	return p
}

func (p *flakyPolicy) Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error) {
	if p.hook != nil {
		p.hook()
	}
	if p.isFailing.Load() {
		_, _, _ = p.Policy.Call(ctx, export, request)
		return nil, engine.Stats{}, p.failure
	}
	return p.Policy.Call(ctx, export, request)
}

// onCall sets a function to run during each call.
func (p *flakyPolicy) onCall(hook func()) { p.hook = hook }

// fixture is a chain with a fake clock that counts notifications.
type fixture struct {
	t        *testing.T
	chains   *chain.Chains
	now      time.Time
	notified int
	seen     []chain.Outcome
	failures []error
	pods     int
}

func (w *fixture) Observe(o chain.Observation) {
	w.seen = append(w.seen, o.Outcome)
	if o.Err != nil {
		w.failures = append(w.failures, o.Err)
	}
}

func newFixture(t *testing.T, bindings ...chain.Binding) *fixture {
	t.Helper()
	w := &fixture{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.chains = swapped(t, chain.Options{
		Clock: func() time.Time { return w.now }, Observer: w, HealthChanged: func() { w.notified++ },
		Quarantine: chain.QuarantineOptions{Failures: 3, Owners: 1},
	}, bindings...)
	return w
}

// evaluate evaluates a new pod.
func (w *fixture) evaluate() (*chain.Result, error) {
	w.pods++
	return w.evaluatePod("pod-" + string(rune('a'+w.pods)))
}

func (w *fixture) evaluatePod(name string) (*chain.Result, error) {
	return w.chains.Evaluate(w.t.Context(), podInput(`{"metadata":{"name":"`+name+`"}}`))
}

func (w *fixture) health() chain.Health {
	w.t.Helper()
	all := w.chains.Health()
	require.Len(w.t, all, 1)
	return all[0]
}

func TestCachedAnswersDoNotEndARowOfFailures(t *testing.T) {
	p := newFlaky("p", "1")
	w := newFixture(t, bind(p))
	_, err := w.evaluatePod("known")
	require.NoError(t, err)
	p.isFailing.Store(true)
	for range 3 {
		_, err = w.evaluate()
		require.ErrorIs(t, err, engine.Trap)
		_, err = w.evaluatePod("known")
		require.NoError(t, err)
	}
	assert.True(t, w.health().Quarantined())
}

func TestAFailingPolicyIsQuarantinedAndRecovers(t *testing.T) {
	p := newFlaky("p", "1")
	w := newFixture(t, bind(p))
	_, err := w.evaluatePod("known")
	require.NoError(t, err)
	assert.True(t, w.health().Answered)

	p.isFailing.Store(true)
	for range 3 {
		_, err = w.evaluate()
		require.ErrorContains(t, err, `policy "p" (module p, `+chain.ShortDigest(p.Digest())+`) gave no valid answer at PodMutation/Offload (Trap): pod_mutation: the module crashed: unreachable; its author must correct it; it wrote: panic: boom; meanwhile, an operator can set spec.failurePolicy or spec.mode of OffloadingPolicy "p", or of the ConfigMap that defines it`)
		require.ErrorIs(t, err, engine.Trap)
	}
	assert.Equal(t, 1, w.notified)
	calls := p.Calls()
	_, err = w.evaluate()
	require.EqualError(t, err, `policy "p" (module p, `+chain.ShortDigest(p.Digest())+`) is quarantined at PodMutation/Offload: not called since 2026-01-02T03:04:05Z, after 3 failures in a row (Trap: pod_mutation: the module crashed: unreachable; its author must correct it; it wrote: panic: boom); the module's author must correct it; meanwhile, an operator can load a working version, or set spec.failurePolicy or spec.mode of OffloadingPolicy "p", or of the ConfigMap that defines it; the policy is retried periodically`)
	assert.Equal(t, calls, p.Calls(), "it is not called")
	health := w.health()
	assert.True(t, health.Quarantined())
	assert.Equal(t, engine.Trap, health.Class)
	assert.Equal(t, 3, health.Failures)

	result, err := w.evaluatePod("known")
	require.NoError(t, err, "cached answers stay valid")
	assert.True(t, result.Changed)
	assert.True(t, w.health().Quarantined())

	// Each failed probe doubles the wait.
	for _, wait := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		calls = p.Calls()
		w.now = w.now.Add(wait - time.Second)
		_, err = w.evaluate()
		require.ErrorIs(t, err, chain.Quarantined)
		assert.Equal(t, calls, p.Calls(), "too early")
		w.now = w.now.Add(time.Second)
		_, err = w.evaluate()
		require.ErrorIs(t, err, engine.Trap, "the probe fails like any other call")
		assert.Equal(t, calls+1, p.Calls())
	}
	assert.Equal(t, 1, w.notified)

	p.isFailing.Store(false)
	w.now = w.now.Add(time.Hour)
	_, err = w.evaluate()
	require.NoError(t, err)
	assert.Equal(t, 2, w.notified)
	assert.False(t, w.health().Quarantined())
	assert.Zero(t, w.health().Failures)
	_, err = w.evaluate()
	require.NoError(t, err, "the quarantine has ended")
}

func TestProbesDoNotOverlap(t *testing.T) {
	p := newFlaky("p", "1")
	p.isFailing.Store(true)
	w := newFixture(t, bind(p))
	for range 3 {
		_, err := w.evaluate()
		require.Error(t, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	p.failure = context.Canceled // like a caller that gives up while it waits for an instance
	w.now = w.now.Add(10 * time.Second)
	p.onCall(func() {
		_, err := w.evaluatePod("meanwhile")
		require.ErrorIs(t, err, chain.Quarantined)
		cancel()
	})
	_, err := w.chains.Evaluate(gone, podInput(`{"metadata":{"name":"left"}}`))
	require.ErrorIs(t, err, context.Canceled)

	p.onCall(nil)
	p.isFailing.Store(false)
	_, err = w.evaluate()
	require.NoError(t, err, "the next call is a probe again")
}

func TestFailuresOfOthersDoNotQuarantineAPolicy(t *testing.T) {
	denies := func(contract.Request) (contract.Response, error) {
		return contract.Response{Deny: &contract.Denial{Reason: "No", Message: "no"}}, nil
	}
	for name, tc := range map[string]struct {
		binding func() chain.Binding
		object  string
	}{
		"denials": {binding: func() chain.Binding { return bind(policy("p", []string{"/object/metadata/name"}, nil, denies)) }},
		"a closed module": {binding: func() chain.Binding {
			p := newFlaky("p", "1")
			p.isFailing.Store(true)
			p.failure = engine.ErrClosed
			return bind(p)
		}},
		"no instance in time": {binding: func() chain.Binding {
			p := newFlaky("p", "1")
			p.isFailing.Store(true)
			p.failure = &engine.CallError{Class: engine.Timeout, Err: context.DeadlineExceeded}
			return bind(p)
		}},
		"no instance to be made": {binding: func() chain.Binding {
			p := newFlaky("p", "1")
			p.isFailing.Store(true)
			p.failure = &engine.CallError{Class: engine.Timeout, Err: fmt.Errorf("%w: no memory", engine.ErrNoInstance)}
			return bind(p)
		}},
		"an unknown namespace": {binding: func() chain.Binding {
			b := bind(policy("p", nil, nil, answers()))
			b.Match = matchNamespace("here")
			return b
		}},
		"a huge object": {binding: func() chain.Binding {
			b := bind(policy("p", []string{"/object/metadata"}, nil, answers()))
			b.Limits.RequestBytes = 10
			return b
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, tc.binding())
			for range 10 {
				_, _ = w.evaluate()
			}
			assert.False(t, w.health().Quarantined())
			assert.Zero(t, w.health().Failures)
			assert.Zero(t, w.notified)
		})
	}
}

func TestFailuresOfThePolicyQuarantineIt(t *testing.T) {
	for name, tc := range map[string]struct {
		policy func() chain.Policy
		want   engine.Class
	}{
		"an error of the module": {policy: func() chain.Policy { return policy("p", nil, nil, fails("no clue")) }, want: engine.Guest},
		"no answer":              {policy: func() chain.Policy { return &rawPolicy{Policy: policy("p", nil, nil, nil)} }, want: engine.BadOutput},
		"an undeclared write": {policy: func() chain.Policy {
			return policy("p", nil, writes("/spec/a", "set"), answers(contract.Remove("/spec/b")))
		}, want: chain.Undeclared},
		"a cached answer that cannot be applied": {policy: func() chain.Policy {
			return policy("p", nil, writes("/spec", "set"), answers(contract.Set("/spec/name/first", contract.Int(1))))
		}, want: engine.BadOutput},
		"a trap": {policy: func() chain.Policy { p := newFlaky("p", "1"); p.isFailing.Store(true); return p }, want: engine.Trap},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, bind(tc.policy()))
			for range 4 {
				_, err := w.chains.Evaluate(t.Context(), podInput(`{"spec":{"name":"text"}}`))
				require.Error(t, err)
			}
			health := w.health()
			assert.True(t, health.Quarantined())
			assert.Equal(t, tc.want, health.Class)
		})
	}
}

func TestASuccessResetsTheCount(t *testing.T) {
	p := newFlaky("p", "1")
	w := newFixture(t, bind(p))
	for range 5 {
		p.isFailing.Store(true)
		for range 2 {
			_, err := w.evaluate()
			require.Error(t, err)
		}
		p.isFailing.Store(false)
		_, err := w.evaluate()
		require.NoError(t, err)
	}
	assert.Zero(t, w.notified)
}

func TestIgnoreSkipsAQuarantinedPolicy(t *testing.T) {
	p := newFlaky("p", "1")
	p.isFailing.Store(true)
	b := bind(p)
	b.FailurePolicy = chain.Ignore
	w := newFixture(t, b)
	for range 5 {
		result, err := w.evaluate()
		require.NoError(t, err)
		assert.False(t, result.Changed)
	}
	assert.Equal(t, 3, p.Calls())
	result, err := w.evaluate()
	require.NoError(t, err)
	require.NotEmpty(t, w.failures)
	require.ErrorIs(t, w.failures[len(w.failures)-1], chain.Quarantined)
	assert.Equal(t, []string{w.failures[len(w.failures)-1].Error()}, result.Warnings)
	assert.Equal(t, errors.Unwrap(w.failures[len(w.failures)-1]).Error(), result.Decisions[0].Ignored)
}

func TestANewVersionIsNotQuarantined(t *testing.T) {
	p := newFlaky("p", "1")
	p.isFailing.Store(true)
	other := bind(policy("other", nil, nil, answers()))
	w := newFixture(t, bind(p))
	for range 3 {
		_, err := w.evaluate()
		require.Error(t, err)
	}
	require.NoError(t, w.chains.Swap([]chain.Binding{bind(p), other}))
	_, err := w.evaluate()
	require.ErrorIs(t, err, chain.Quarantined, "other bindings do not matter")

	next := bind(p)
	next.Settings = []byte(`{"new":true}`)
	require.NoError(t, w.chains.Swap([]chain.Binding{next}))
	_, err = w.evaluate()
	require.ErrorIs(t, err, engine.Trap, "new settings are a new version")

	require.NoError(t, w.chains.Swap([]chain.Binding{bind(newFlaky("p", "2"))}))
	_, err = w.evaluate()
	require.NoError(t, err)
}

func TestNoQuarantineWithoutAClock(t *testing.T) {
	p := newFlaky("p", "1")
	p.isFailing.Store(true)
	chains := swapped(t, chain.Options{}, bind(p))
	for range 10 {
		_, err := chains.Evaluate(t.Context(), podInput(`{}`))
		require.ErrorIs(t, err, engine.Trap)
	}
}

// lastGood binds a new version with the previous one as fallback.
func lastGood(next, previous *flakyPolicy) chain.Binding {
	b := bind(next)
	b.FailurePolicy = chain.LastGood
	if previous != nil {
		fallback := bind(previous)
		b.Fallback = &fallback
	}
	return b
}

func TestLastGoodCallsThePreviousVersion(t *testing.T) {
	previous, next := newFlaky("p", "1"), newFlaky("p", "2")
	next.isFailing.Store(true)
	w := newFixture(t, lastGood(next, previous))
	for range 5 {
		result, err := w.evaluate()
		require.NoError(t, err, "the pod is admitted")
		assert.Equal(t, "1", result.Object["spec"].(map[string]any)["hostname"])
		require.Len(t, result.Decisions, 1)
		assert.Equal(t, previous.Digest(), result.Decisions[0].Digest, "the digest of the previous version")
		assert.Equal(t, "p", result.Decisions[0].Binding)
		assert.NotEmpty(t, result.Decisions[0].FellBack)
		assert.Contains(t, result.Warnings[0], "its previous version ("+chain.ShortDigest(previous.Digest())+") was used instead")
	}
	assert.Equal(t, 3, next.Calls(), "then it is quarantined")
	assert.Equal(t, []chain.Outcome{chain.FellBack, chain.FellBack, chain.FellBack, chain.FellBack, chain.FellBack}, w.seen)
	health := w.health()
	assert.True(t, health.Quarantined())
	assert.True(t, health.FallsBack)
	assert.Equal(t, previous.Digest(), health.Fallback)

	next.isFailing.Store(false)
	w.now = w.now.Add(time.Minute)
	result, err := w.evaluate()
	require.NoError(t, err)
	assert.Equal(t, "2", result.Object["spec"].(map[string]any)["hostname"], "the probe succeeded")

	previous.isFailing.Store(true)
	next.isFailing.Store(true)
	_, err = w.evaluate()
	require.ErrorIs(t, err, next.failure)
	require.ErrorIs(t, err, previous.failure, "it failed too")
	require.ErrorContains(t, err, "its previous version ("+chain.ShortDigest(previous.Digest())+") failed too: ")

	_, err = newFixture(t, lastGood(next, nil)).evaluate()
	require.ErrorIs(t, err, engine.Trap, "LastGood without a previous version is Fail")
}

func TestLastGoodDoesNotHideFailuresOfTheHost(t *testing.T) {
	b := lastGood(newFlaky("p", "2"), newFlaky("p", "1"))
	b.Match = matchNamespace("here")
	_, err := newFixture(t, b).evaluate()
	require.ErrorIs(t, err, errNoNamespace)
	require.ErrorIs(t, err, chain.Host)
	require.ErrorContains(t, err, "could not be called at PodMutation/Offload: matching the object: no namespace; if this persists, an operator must check the log of the component")
}

func TestAFallbackIsNotRetired(t *testing.T) {
	var retired []string
	previous, next := newFlaky("p", "1"), newFlaky("p", "2")
	chains := swapped(t, chain.Options{Retired: func(p chain.Policy) { retired = append(retired, p.Manifest().Version) }}, bind(previous))
	require.NoError(t, chains.Swap([]chain.Binding{lastGood(next, previous)}))
	assert.Empty(t, retired)
	require.NoError(t, chains.Swap([]chain.Binding{bind(next)}))
	assert.Equal(t, []string{"1"}, retired)
}
