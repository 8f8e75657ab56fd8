package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryMetricOfLiqoIsInTheReference holds Liqo's metrics: each is served, or has the
// reason why it is not.
func TestEveryMetricOfLiqoIsInTheReference(t *testing.T) {
	found, err := metricsIn(filepath.Join(top, metricsCode))
	require.NoError(t, err)
	page := metricsText(found)
	for _, row := range []string{
		"| `liqo_peer_is_connected` | gauge | `driver`, `cluster_id` |",
		"| `liqo_peer_latency_us` | gauge | `driver`, `cluster_id` |",
		"| `liqo_peer_latency_histogram_us` | histogram | `driver`, `cluster_id` |",
		"| `liqo_virtual_kubelet_reflection_item_counter` | counter | `namespace`, `reflector_resource`, `cluster_id`, `node_name` |",
		"| `liqo_virtual_kubelet_reflection_error_counter` | counter | `namespace`, `reflector_resource`, `cluster_id`, `node_name` |",
		"| `liqo_peer_receive_bytes_total` | Liqo's WireGuard gateway",
		"| `liqo_peer_transmit_bytes_total` | Liqo's WireGuard gateway",
		"| `liqo_wireguard_implementation` | It names",
	} {
		assert.Contains(t, page, "\n"+row)
	}
}
