package policysource_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policysource"
	"github.com/longshore-dev/longshore/sdk/contract"
)

func TestMetricsHaveNoNamesOfObjects(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := policysource.NewMetrics(registry)
	require.NoError(t, err)
	for _, outcome := range []chain.Outcome{chain.Answered, chain.Remembered, chain.Remembered} {
		metrics.Observe(chain.Observation{
			Point: contract.PodMutation, Binding: "p", Module: "m", Outcome: outcome, Duration: 20 * time.Microsecond,
			Stats: engine.Stats{Ticks: 10},
		})
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP longshore_policy_calls_total Calls of policies by result: answered, remembered, denied, failed, ignored, fellback, shadow.
# TYPE longshore_policy_calls_total counter
longshore_policy_calls_total{extension_point="PodMutation",module="m",policy="p",result="answered"} 1
longshore_policy_calls_total{extension_point="PodMutation",module="m",policy="p",result="remembered"} 2
`), "longshore_policy_calls_total"))
	_, err = policysource.NewMetrics(registry)
	require.ErrorContains(t, err, "registering policy metrics")
}
