package engine

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The engines of one process share a registry.
func TestEnginesShareMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, err := newMetrics(registry)
	require.NoError(t, err)
	second, err := newMetrics(registry)
	require.NoError(t, err)
	first.observe("configmap", directionOut, "apply", nil)
	second.observe("certificate.cert-manager.io", directionOut, "apply", nil)
	assert.Equal(t, 2, testutil.CollectAndCount(first.operations))
	count, err := testutil.GatherAndCount(registry, "longshore_reflection_operations_total")
	require.NoError(t, err)
	assert.Equal(t, 2, count)
}
