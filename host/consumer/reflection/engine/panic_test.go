package engine

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPanicStopsNoOtherObject(t *testing.T) {
	local, remote := mapped(t)
	decide := pods{}.Decide
	w := start(t, local, remote, pods{decide: func(in Input) ([]Action, error) {
		if in.Key.Name == "poison" {
			panic("index out of range")
		}
		return decide(in)
	}})
	for _, name := range []string{"poison", "web"} {
		require.NoError(t, local.Create(t.Context(), localPod("shop", name)))
	}
	require.Eventually(t, func() bool { return remote.count("create ShadowPod") == 1 }, soon, tick)
	require.Eventually(t, func() bool { return len(w.journal.all()) > 0 }, soon, tick)
	assert.Equal(t, []string{"shop/poison FailedReflection"}, w.journal.all(), "recorded once")
	require.Eventually(t, func() bool { return testutil.ToFloat64(w.engine.metrics.panics.WithLabelValues("pod")) > 1 }, soon, tick, "tried again")
}
