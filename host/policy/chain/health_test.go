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

// patient is a policy that fails while it is ill.
type patient struct {
	*policytest.Policy
	ill   atomic.Bool
	fault error
	hook  func()
}

func newPatient(name, version string) *patient {
	p := &patient{fault: &engine.CallError{
		Module: name, Point: "pod_mutation", Class: engine.Trap, Err: errors.New("the module crashed: unreachable; its author must correct it; it wrote: panic: boom"),
	}}
	p.Policy = policytest.Native(name, contract.Manifest{Version: version, Points: []contract.PointManifest{{
		Point: contract.PodMutation, Reads: []string{"/object/metadata/name"}, Writes: writes("/spec/hostname", "set"),
	}}}, map[contract.Point]func(contract.Request) (contract.Response, error){
		contract.PodMutation: answers(contract.Set("/spec/hostname", contract.String(version))),
	})
	return p
}

func (p *patient) Call(ctx context.Context, export string, request []byte) ([]byte, engine.Stats, error) {
	if p.hook != nil {
		p.hook()
	}
	if p.ill.Load() {
		_, _, _ = p.Policy.Call(ctx, export, request)
		return nil, engine.Stats{}, p.fault
	}
	return p.Policy.Call(ctx, export, request)
}

// onCall sets what happens during the next calls.
func (p *patient) onCall(hook func()) { p.hook = hook }

// ward is a chain with a clock.
type ward struct {
	t      *testing.T
	chains *chain.Chains
	now    time.Time
	news   int
	seen   []chain.Outcome
	pods   int
}

func (w *ward) Observe(o chain.Observation) { w.seen = append(w.seen, o.Outcome) }

func newWard(t *testing.T, bindings ...chain.Binding) *ward {
	t.Helper()
	w := &ward{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.chains = swapped(t, chain.Options{
		Clock: func() time.Time { return w.now }, Observer: w, HealthChanged: func() { w.news++ },
		Quarantine: chain.QuarantineOptions{Failures: 3, Owners: 1},
	}, bindings...)
	return w
}

// ask asks about a pod that was never seen before.
func (w *ward) ask() (*chain.Result, error) {
	w.pods++
	return w.askAbout("pod-" + string(rune('a'+w.pods)))
}

func (w *ward) askAbout(name string) (*chain.Result, error) {
	return w.chains.Evaluate(w.t.Context(), podInput(`{"metadata":{"name":"`+name+`"}}`))
}

func (w *ward) health() chain.Health {
	w.t.Helper()
	all := w.chains.Health()
	require.Len(w.t, all, 1)
	return all[0]
}

func TestAPolicyThatKeepsFailingIsQuarantinedAndRecovers(t *testing.T) {
	p := newPatient("p", "1")
	w := newWard(t, bind(p))
	_, err := w.askAbout("known")
	require.NoError(t, err)
	assert.True(t, w.health().Answered)

	p.ill.Store(true)
	for range 3 {
		_, err = w.ask()
		require.ErrorContains(t, err, `policy "p" (module p, `+chain.ShortDigest(p.Digest())+`) gave no valid answer at PodMutation/Offload (Trap): pod_mutation: the module crashed: unreachable; its author must correct it; it wrote: panic: boom; an operator can set spec.failurePolicy or spec.mode of OffloadingPolicy "p", or of the ConfigMap it is kept from, meanwhile`)
		require.ErrorIs(t, err, engine.Trap)
	}
	assert.Equal(t, 1, w.news)
	calls := p.Calls()
	_, err = w.ask()
	require.EqualError(t, err, `policy "p" (module p, `+chain.ShortDigest(p.Digest())+`) is quarantined at PodMutation/Offload: it is not asked since 2026-01-02T03:04:05Z, because it gave no valid answer 3 times in a row (Trap: pod_mutation: the module crashed: unreachable; its author must correct it; it wrote: panic: boom); the module's author must correct it, an operator can load a version that works, or set spec.failurePolicy or spec.mode of OffloadingPolicy "p", or of the ConfigMap it is kept from, meanwhile; it is tried again from time to time`)
	assert.Equal(t, calls, p.Calls(), "it is not asked")
	health := w.health()
	assert.True(t, health.Quarantined())
	assert.Equal(t, engine.Trap, health.Class)
	assert.Equal(t, 3, health.Failures)

	result, err := w.askAbout("known")
	require.NoError(t, err, "what it answered before is true still")
	assert.True(t, result.Changed)
	assert.True(t, w.health().Quarantined())

	// The probes fail, each later than the one before.
	for _, wait := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		calls = p.Calls()
		w.now = w.now.Add(wait - time.Second)
		_, err = w.ask()
		require.ErrorContains(t, err, "is quarantined")
		assert.Equal(t, calls, p.Calls(), "too early")
		w.now = w.now.Add(time.Second)
		_, err = w.ask()
		require.ErrorContains(t, err, "gave no valid answer", "the probe is a question like any other")
		assert.Equal(t, calls+1, p.Calls())
	}
	assert.Equal(t, 1, w.news)

	p.ill.Store(false)
	w.now = w.now.Add(time.Hour)
	_, err = w.ask()
	require.NoError(t, err)
	assert.Equal(t, 2, w.news)
	assert.False(t, w.health().Quarantined())
	assert.Zero(t, w.health().Failures)
	_, err = w.ask()
	require.NoError(t, err, "it has recovered")
}

func TestOnlyOneProbeAtATime(t *testing.T) {
	p := newPatient("p", "1")
	p.ill.Store(true)
	w := newWard(t, bind(p))
	for range 3 {
		_, err := w.ask()
		require.Error(t, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	p.fault = context.Canceled // as when the asker leaves while waiting for an instance
	w.now = w.now.Add(10 * time.Second)
	p.onCall(func() {
		_, err := w.askAbout("meanwhile")
		require.ErrorContains(t, err, "is quarantined")
		cancel()
	})
	_, err := w.chains.Evaluate(gone, podInput(`{"metadata":{"name":"left"}}`))
	require.ErrorIs(t, err, context.Canceled)

	p.onCall(nil)
	p.ill.Store(false)
	_, err = w.ask()
	require.NoError(t, err, "a probe that nobody waited for is made up for at once")
}

func TestWhatIsNoFaultOfThePolicyDoesNotQuarantineIt(t *testing.T) {
	denies := func(contract.Request) (contract.Response, error) {
		return contract.Response{Deny: &contract.Denial{Reason: "No", Message: "no"}}, nil
	}
	for name, tc := range map[string]struct {
		binding func() chain.Binding
		object  string
	}{
		"denials": {binding: func() chain.Binding { return bind(policy("p", []string{"/object/metadata/name"}, nil, denies)) }},
		"a closed module": {binding: func() chain.Binding {
			p := newPatient("p", "1")
			p.ill.Store(true)
			p.fault = engine.ErrClosed
			return bind(p)
		}},
		"no instance in time": {binding: func() chain.Binding {
			p := newPatient("p", "1")
			p.ill.Store(true)
			p.fault = &engine.CallError{Class: engine.Timeout, Err: context.DeadlineExceeded}
			return bind(p)
		}},
		"no instance to be made": {binding: func() chain.Binding {
			p := newPatient("p", "1")
			p.ill.Store(true)
			p.fault = &engine.CallError{Class: engine.Timeout, Err: fmt.Errorf("%w: no memory", engine.ErrNoInstance)}
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
			w := newWard(t, tc.binding())
			for range 10 {
				_, _ = w.ask()
			}
			assert.False(t, w.health().Quarantined())
			assert.Zero(t, w.health().Failures)
			assert.Zero(t, w.news)
		})
	}
}

func TestEveryFaultOfThePolicyCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		policy func() chain.Policy
		want   engine.Class
	}{
		"its own error": {policy: func() chain.Policy { return policy("p", nil, nil, fails("no clue")) }, want: engine.Guest},
		"no answer":     {policy: func() chain.Policy { return &rawPolicy{Policy: policy("p", nil, nil, nil)} }, want: engine.BadOutput},
		"an undeclared write": {policy: func() chain.Policy {
			return policy("p", nil, writes("/spec/a", "set"), answers(contract.Remove("/spec/b")))
		}, want: chain.Undeclared},
		"an answer that fits no pod, remembered": {policy: func() chain.Policy {
			return policy("p", nil, writes("/spec", "set"), answers(contract.Set("/spec/name/first", contract.Int(1))))
		}, want: engine.BadOutput},
		"a trap": {policy: func() chain.Policy { p := newPatient("p", "1"); p.ill.Store(true); return p }, want: engine.Trap},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWard(t, bind(tc.policy()))
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

func TestASuccessInBetweenIsNoQuarantine(t *testing.T) {
	p := newPatient("p", "1")
	w := newWard(t, bind(p))
	for range 5 {
		p.ill.Store(true)
		for range 2 {
			_, err := w.ask()
			require.Error(t, err)
		}
		p.ill.Store(false)
		_, err := w.ask()
		require.NoError(t, err)
	}
	assert.Zero(t, w.news)
}

func TestIgnoreSkipsWhatIsQuarantined(t *testing.T) {
	p := newPatient("p", "1")
	p.ill.Store(true)
	b := bind(p)
	b.FailurePolicy = chain.Ignore
	w := newWard(t, b)
	for range 5 {
		result, err := w.ask()
		require.NoError(t, err)
		assert.False(t, result.Changed)
	}
	assert.Equal(t, 3, p.Calls())
	result, err := w.ask()
	require.NoError(t, err)
	assert.Contains(t, result.Decisions[0].Ignored, "it is not asked since")
	assert.Contains(t, result.Warnings[0], "is quarantined")
}

func TestANewVersionLiftsAQuarantine(t *testing.T) {
	p := newPatient("p", "1")
	p.ill.Store(true)
	other := bind(policy("other", nil, nil, answers()))
	w := newWard(t, bind(p))
	for range 3 {
		_, err := w.ask()
		require.Error(t, err)
	}
	require.NoError(t, w.chains.Swap([]chain.Binding{bind(p), other}))
	_, err := w.ask()
	require.ErrorContains(t, err, "is quarantined", "another policy changes nothing")

	next := bind(p)
	next.Settings = []byte(`{"new":true}`)
	require.NoError(t, w.chains.Swap([]chain.Binding{next}))
	_, err = w.ask()
	require.ErrorContains(t, err, "gave no valid answer", "new settings are a new version")

	require.NoError(t, w.chains.Swap([]chain.Binding{bind(newPatient("p", "2"))}))
	_, err = w.ask()
	require.NoError(t, err)
}

func TestWithoutAClockNothingIsQuarantined(t *testing.T) {
	p := newPatient("p", "1")
	p.ill.Store(true)
	chains := swapped(t, chain.Options{}, bind(p))
	for range 10 {
		_, err := chains.Evaluate(t.Context(), podInput(`{}`))
		require.ErrorContains(t, err, "gave no valid answer")
	}
}

// lastGood binds a new version with the previous one behind it.
func lastGood(next, previous *patient) chain.Binding {
	b := bind(next)
	b.FailurePolicy = chain.LastGood
	if previous != nil {
		fallback := bind(previous)
		b.Fallback = &fallback
	}
	return b
}

func TestLastGoodFallsBackToThePreviousVersion(t *testing.T) {
	previous, next := newPatient("p", "1"), newPatient("p", "2")
	next.ill.Store(true)
	w := newWard(t, lastGood(next, previous))
	for range 5 {
		result, err := w.ask()
		require.NoError(t, err, "pods keep flowing")
		assert.Equal(t, "1", result.Object["spec"].(map[string]any)["hostname"])
		require.Len(t, result.Decisions, 1)
		assert.Equal(t, previous.Digest(), result.Decisions[0].Digest, "who decided")
		assert.Equal(t, "p", result.Decisions[0].Binding)
		assert.NotEmpty(t, result.Decisions[0].FellBack)
		assert.Contains(t, result.Warnings[0], "its previous version ("+chain.ShortDigest(previous.Digest())+") decided instead")
	}
	assert.Equal(t, 3, next.Calls(), "and then it is quarantined")
	assert.Equal(t, []chain.Outcome{chain.FellBack, chain.FellBack, chain.FellBack, chain.FellBack, chain.FellBack}, w.seen)
	health := w.health()
	assert.True(t, health.Quarantined())
	assert.True(t, health.FallsBack)
	assert.Equal(t, previous.Digest(), health.Fallback)

	next.ill.Store(false)
	w.now = w.now.Add(time.Minute)
	result, err := w.ask()
	require.NoError(t, err)
	assert.Equal(t, "2", result.Object["spec"].(map[string]any)["hostname"], "the probe brings it back")

	previous.ill.Store(true)
	next.ill.Store(true)
	_, err = w.ask()
	require.ErrorContains(t, err, "its previous version ("+chain.ShortDigest(previous.Digest())+") failed too: ")

	_, err = newWard(t, lastGood(next, nil)).ask()
	require.ErrorContains(t, err, "gave no valid answer", "without a previous version it is Fail")
}

func TestLastGoodDoesNotHideWhatIsNotThePolicysFault(t *testing.T) {
	b := lastGood(newPatient("p", "2"), newPatient("p", "1"))
	b.Match = matchNamespace("here")
	_, err := newWard(t, b).ask()
	require.ErrorContains(t, err, "could not be asked at PodMutation/Offload: matching the object: no namespace; if it lasts, an operator should read the log of the component")
}

func TestAPreviousVersionIsKeptOpenWhileItIsBehindANewOne(t *testing.T) {
	var retired []string
	previous, next := newPatient("p", "1"), newPatient("p", "2")
	chains := swapped(t, chain.Options{Retired: func(p chain.Policy) { retired = append(retired, p.Manifest().Version) }}, bind(previous))
	require.NoError(t, chains.Swap([]chain.Binding{lastGood(next, previous)}))
	assert.Empty(t, retired)
	require.NoError(t, chains.Swap([]chain.Binding{bind(next)}))
	assert.Equal(t, []string{"1"}, retired)
}
