// Package liqometrics defines the metrics that Longshore serves under Liqo's names and labels,
// so that dashboards written for Liqo show them. Metrics of its own begin with longshore_.
package liqometrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// The labels of Liqo.
const (
	labelNamespace = "namespace"
	labelReflector = "reflector_resource"
	labelCluster   = "cluster_id"
	labelNode      = "node_name"
	labelDriver    = "driver"
)

// driver is the only value that the label driver has in Liqo. It does not tell how two networks
// are connected.
const driver = "wireguard"

//nolint:promlinter // The names and the units are Liqo's.
func newReflectionCounters() (items, failures *prometheus.CounterVec) {
	items = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liqo_virtual_kubelet_reflection_item_counter",
		Help: "Reconciled objects of a reflected namespace. A fast increase indicates that local and remote controllers revert each other.",
	}, []string{labelNamespace, labelReflector, labelCluster, labelNode})
	failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liqo_virtual_kubelet_reflection_error_counter",
		Help: "Failed reconciliations of objects of a reflected namespace, which are tried again.",
	}, []string{labelNamespace, labelReflector, labelCluster, labelNode})
	return items, failures
}

// The names and the units are Liqo's.
var (
	peerIsConnected = prometheus.NewDesc("liqo_peer_is_connected", "1 if the Connection of a peer has the status Connected, else 0.", []string{labelDriver, labelCluster}, nil)
	peerLatency     = prometheus.NewDesc("liqo_peer_latency_us", "Round-trip latency in microseconds in the status of the Connection of a peer, while it is connected.", []string{labelDriver, labelCluster}, nil)
)

//nolint:promlinter // The names and the units are Liqo's.
func newLatencyHistogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "liqo_peer_latency_histogram_us",
		Help: "Round-trip latency in microseconds of a connected peer, observed once per scrape.",
		Buckets: []float64{
			10000, 15000, 20000, 36250, 52500, 68750, 85000, 101250, 117500, 133750, 150000, 178380, 212129, 252264, 299992,
		},
	}, []string{labelDriver, labelCluster})
}

// reflectors are the names that Liqo gives the reflectors of resources. A custom resource has
// none there and keeps its own name.
var reflectors = map[string]string{
	"pod": "Pod", "service": "Service", "endpointslice": "EndpointSlice", "ingress": "Ingress", "configmap": "ConfigMap",
	"secret": "Secret", "serviceaccount": "ServiceAccount", "persistentvolumeclaim": "PersistentVolumeClaim", "event": "Event",
}

// NotServed are the metrics of Liqo that Longshore does not serve, with the reason.
var NotServed = map[string]string{
	"liqo_peer_receive_bytes_total":  "Liqo's WireGuard gateway reads it from its network interface. Longshore has no gateway; that of a fabric serves it.",
	"liqo_peer_transmit_bytes_total": "Liqo's WireGuard gateway reads it from its network interface. Longshore has no gateway; that of a fabric serves it.",
	"liqo_wireguard_implementation":  "It names the WireGuard implementation of Liqo's gateway. Longshore has no gateway; that of a fabric serves it.",
}
