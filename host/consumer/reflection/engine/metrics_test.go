package engine

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The engines of one process share a registry.
func TestEnginesShareMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, err := newMetrics(registry, provider, nodeName)
	require.NoError(t, err)
	second, err := newMetrics(registry, provider, nodeName)
	require.NoError(t, err)
	first.observe("configmap", directionOut, "apply", nil)
	second.observe("certificate.cert-manager.io", directionOut, "apply", nil)
	assert.Equal(t, 2, testutil.CollectAndCount(first.operations))
	count, err := testutil.GatherAndCount(registry, "longshore_reflection_operations_total")
	require.NoError(t, err)
	assert.Equal(t, 2, count)
}

// The counters of Liqo have the namespaces that are reflected, and no others.
func TestTheCountersOfLiqoFollowTheNamespaces(t *testing.T) {
	local, remote := mapped(t)
	registry := prometheus.NewRegistry()
	decide := pods{}.Decide
	w := startWith(t, local, remote, func(o *Options) { o.Registerer = registry }, pods{decide: func(in Input) ([]Action, error) {
		if in.Key.Name == "poison" {
			return nil, errors.New("unknown field")
		}
		return decide(in)
	}})
	for _, name := range []string{"poison", "web"} {
		require.NoError(t, local.Create(t.Context(), localPod("shop", name)))
	}
	labels := []string{"shop", "Pod", provider, nodeName}
	require.Eventually(t, func() bool {
		return testutil.ToFloat64(w.engine.metrics.liqo.Items.WithLabelValues(labels...)) > 0 &&
			testutil.ToFloat64(w.engine.metrics.liqo.Failures.WithLabelValues(labels...)) > 1
	}, soon, tick)

	w.remap(t, nil)
	require.Eventually(t, func() bool {
		count, err := testutil.GatherAndCount(registry, "liqo_virtual_kubelet_reflection_item_counter", "liqo_virtual_kubelet_reflection_error_counter")
		return err == nil && count == 0
	}, soon, tick, "the series of a namespace that is no longer reflected are deleted")
}

// An alert on an increase of a counter that begins at 1 never fires.
func TestPanicsAreCountedFromZero(t *testing.T) {
	local, remote := mapped(t)
	w := startWith(t, local, remote, func(o *Options) { o.Registerer = prometheus.NewRegistry() }, pods{})
	require.Equal(t, 1, testutil.CollectAndCount(w.engine.metrics.panics))
	assert.Zero(t, testutil.ToFloat64(w.engine.metrics.panics.WithLabelValues("pod")))
}
