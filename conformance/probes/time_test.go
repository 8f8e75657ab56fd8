package probes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// What makes the most of its fuel is ended for its time, long before the fuel is used up.
func TestSlowProbesEndInTime(t *testing.T) {
	e := newEngine(t, "", nil)
	for _, name := range []string{"tinynumbers", "hostcalls"} {
		t.Run(name, func(t *testing.T) {
			_, _, err := limited(t, e, name, onlyTime).Call(t.Context(), contract.PodMutation.Export(), question(LongQuestion, ""))
			require.ErrorIs(t, err, engine.Timeout)
			require.ErrorIs(t, err, engine.ErrCallTime)
			require.EqualError(t, err, "pod_mutation: the call took too long: it ran for more than 46ms and was stopped; its author should make it faster")
		})
	}
}
