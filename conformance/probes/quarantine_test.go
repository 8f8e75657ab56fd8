package probes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Every probe that fails is quarantined, whatever its class, and the message contains its last
// error. Its cached answers stay valid.
func TestProbesThatFailAreQuarantined(t *testing.T) {
	all, err := All()
	require.NoError(t, err)
	e := newEngine(t, "", nil)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	classes := map[engine.Class]int{}
	for _, p := range all {
		m, err := module.Load(t.Context(), e, p.Wasm, module.Options{Name: p.Name})
		if err != nil {
			continue // refused at load
		}
		chains := chain.New(chain.Options{Clock: func() time.Time { return now }})
		require.NoError(t, chains.Swap([]chain.Binding{{Name: p.Name, Policy: m, Point: contract.PodMutation}}))
		askIn := func(namespace, name string) error {
			_, err := chains.Evaluate(t.Context(), chain.Input{
				Point: contract.PodMutation, Moment: contract.MomentAdmission,
				Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{}},
				Match:  chain.Attributes{Namespace: namespace},
			})
			return err
		}
		ask := func(name string) error { return askIn("namespace-1", name) }
		fails := func(i int) error {
			return askIn(fmt.Sprintf("namespace-%d", i%3), fmt.Sprintf("%d%s", i, strings.Repeat("n", 2*LongQuestion)))
		}
		before := ask("short")
		if fails(0) == nil {
			require.NoError(t, m.Close(t.Context()))
			continue // it answers
		}
		t.Run(p.Name, func(t *testing.T) {
			require.NoError(t, before)
			var failure *chain.PolicyError
			for i := range 4 {
				require.ErrorAs(t, fails(i+1), &failure)
				assert.NotContains(t, []engine.Class{chain.Host, chain.Quarantined, ""}, failure.Class)
			}
			classes[failure.Class]++
			var quarantined *chain.PolicyError
			require.ErrorAs(t, fails(5), &quarantined)
			assert.Equal(t, chain.Quarantined, quarantined.Class)
			assert.Contains(t, quarantined.Error(), fmt.Sprintf(`policy "%s" (module `, p.Name))
			assert.Contains(t, quarantined.Error(), "not called since 2026-01-02T03:04:05Z, after 5 failures in a row ("+string(failure.Class)+": ")
			assert.NotContains(t, quarantined.Error(), "\n")
			require.NoError(t, ask("short"), "cached answers stay valid")
			assert.ErrorContains(t, ask("shrt"), "is quarantined")
		})
		require.NoError(t, m.Close(t.Context()))
	}
	for _, class := range []engine.Class{engine.Timeout, engine.Memory, engine.Trap, engine.BadOutput, engine.Denied, engine.Guest, chain.Undeclared} {
		assert.Positive(t, classes[class], string(class))
	}
}

// A call that exceeds the bound of 50 ms of processor time counts like one that uses up its
// fuel: the policy is quarantined if objects of several namespaces are affected, and never
// because of the objects of one namespace.
func TestCallsThatExceedTheTimeAreFailuresOfThePolicy(t *testing.T) {
	e := newEngine(t, "", nil)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		namespaces      int
		wantQuarantined bool
	}{
		"in one namespace":    {namespaces: 1},
		"in three namespaces": {namespaces: 3, wantQuarantined: true},
	} {
		t.Run(name, func(t *testing.T) {
			chains := chain.New(chain.Options{Clock: func() time.Time { return now }})
			require.NoError(t, chains.Swap([]chain.Binding{{Name: "slow", Policy: limited(t, e, "tinynumbers", onlyTime), Point: contract.PodMutation}}))
			for i := range 6 {
				_, err := chains.Evaluate(t.Context(), chain.Input{
					Point: contract.PodMutation, Moment: contract.MomentAdmission,
					Object: map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("%d%s", i, strings.Repeat("n", 2*LongQuestion))}, "spec": map[string]any{}},
					Match:  chain.Attributes{Namespace: fmt.Sprintf("namespace-%d", i%tc.namespaces)},
				})
				var failure *chain.PolicyError
				require.ErrorAs(t, err, &failure)
				if i < 5 || !tc.wantQuarantined {
					require.ErrorIs(t, err, engine.ErrCallTime)
					assert.Equal(t, engine.Timeout, failure.Class)
				} else {
					assert.Equal(t, chain.Quarantined, failure.Class)
				}
			}
			assert.Equal(t, tc.wantQuarantined, chains.Health()[0].Quarantined())
			assert.Equal(t, engine.Timeout, chains.Health()[0].Class)
		})
	}
}
