package chain_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

// settingsPolicy is a policy that fails, and may check its settings before it is called.
type settingsPolicy struct {
	*flakyPolicy
	checks bool
}

func (p *settingsPolicy) ChecksSettings() bool { return p.checks }

func TestAFailureNamesTheRoleThatMustAct(t *testing.T) {
	const (
		author    = "the module's author must correct it"
		operator  = `an operator must correct spec.settings of OffloadingPolicy "p", or of the ConfigMap that defines it`
		either    = `if spec.settings of OffloadingPolicy "p", or of the ConfigMap that defines it, are missing or wrong, an operator must correct them; otherwise the module's author must correct the module`
		wrong     = "the module reported: spec.settings.size: found a string, want a number"
		crash     = "the module crashed: unreachable; its author must correct it; it reported: spec.settings.size is missing"
		fuel      = "it used up its fuel; its author should look for an endless loop"
		noClue    = "the module reported: no clue"
		separator = "; "
	)
	for name, tc := range map[string]struct {
		class    engine.Class
		message  string
		settings string
		checks   bool
		// wantReason and wantRemedy are the ends of the failure's reason and of the quarantine.
		wantReason, wantRemedy string
	}{
		"wrong settings":                    {class: engine.Guest, message: wrong, settings: `{"size":"x"}`, wantReason: wrong + separator + operator, wantRemedy: operator},
		"missing settings":                  {class: engine.Guest, message: wrong, wantReason: wrong + separator + operator, wantRemedy: operator},
		"an error that names no settings":   {class: engine.Guest, message: noClue, settings: `{"a":1}`, wantReason: noClue + separator + either, wantRemedy: either},
		"that error without settings":       {class: engine.Guest, message: noClue, wantReason: noClue + separator + either, wantRemedy: either},
		"settings that the module accepted": {class: engine.Guest, message: wrong, checks: true, wantReason: wrong + separator + author, wantRemedy: author},
		"a crash over settings":             {class: engine.Trap, message: crash, wantReason: crash + separator + either, wantRemedy: either},
		"a crash over accepted settings":    {class: engine.Trap, message: crash, checks: true, wantReason: crash, wantRemedy: author},
		"too much fuel":                     {class: engine.Timeout, message: fuel, wantReason: fuel, wantRemedy: author},
	} {
		t.Run(name, func(t *testing.T) {
			p := &settingsPolicy{flakyPolicy: newFlaky("p", "1"), checks: tc.checks}
			p.failure = &engine.CallError{Module: "p", Point: "pod_mutation", Class: tc.class, Err: errors.New(tc.message)}
			p.isFailing.Store(true)
			b := bind(p)
			b.Settings = json.RawMessage(tc.settings)
			w := newFixture(t, b)
			for range 3 {
				_, err := w.evaluate()
				failure, ok := errors.AsType[*chain.PolicyError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, "pod_mutation: "+tc.wantReason, failure.Reason())
				assert.Contains(t, err.Error(), "): pod_mutation: "+tc.wantReason+"; meanwhile, an operator can set")
			}
			_, err := w.evaluate()
			require.ErrorIs(t, err, chain.Quarantined)
			assert.Contains(t, err.Error(), "); "+tc.wantRemedy+"; meanwhile, an operator can load a working version")
			assert.Equal(t, tc.wantRemedy, w.health().Remedy)
		})
	}
}
