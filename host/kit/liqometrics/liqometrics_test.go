package liqometrics

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
)

// connections is a cache of Connections.
type connections struct {
	client.Reader
	items []networkingv1beta1.Connection
	err   error
}

// List implements client.Reader.
func (c *connections) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*networkingv1beta1.ConnectionList).Items = c.items
	return c.err
}

func connection(peer, name string, age time.Duration, status networkingv1beta1.ConnectionStatusType, latency string) networkingv1beta1.Connection {
	c := networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-" + peer, Name: name,
			CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)), Labels: map[string]string{"liqo.io/remote-cluster-id": peer},
		},
		Status: networkingv1beta1.ConnectionStatus{Value: status},
	}
	if latency != "" {
		c.Status.Latency = &networkingv1beta1.ConnectionLatency{Value: latency}
	}
	return c
}

const (
	connectedHeader = `# HELP liqo_peer_is_connected 1 if the Connection of a peer has the status Connected, else 0.
# TYPE liqo_peer_is_connected gauge
`
	latencyHeader = `# HELP liqo_peer_latency_us Round-trip latency in microseconds in the status of the Connection of a peer, while it is connected.
# TYPE liqo_peer_latency_us gauge
`
)

func TestPeers(t *testing.T) {
	for sentence, tc := range map[string]struct {
		connections []networkingv1beta1.Connection
		err         error
		want        string
	}{
		"a connected peer has a latency in microseconds": {
			connections: []networkingv1beta1.Connection{connection("milan", "gw", 0, networkingv1beta1.Connected, "1.5ms")},
			want: connectedHeader + `liqo_peer_is_connected{cluster_id="milan",driver="wireguard"} 1
` + latencyHeader + `liqo_peer_latency_us{cluster_id="milan",driver="wireguard"} 1500
`,
		},
		"the last latency of a peer that is not connected is not shown": {
			connections: []networkingv1beta1.Connection{connection("milan", "gw", 0, networkingv1beta1.ConnectionError, "1.5ms")},
			want:        connectedHeader + `liqo_peer_is_connected{cluster_id="milan",driver="wireguard"} 0` + "\n",
		},
		"a Connection that a user wrote has no latency": {
			connections: []networkingv1beta1.Connection{connection("milan", "gw", 0, networkingv1beta1.Connected, "")},
			want:        connectedHeader + `liqo_peer_is_connected{cluster_id="milan",driver="wireguard"} 1` + "\n",
		},
		"an invalid latency is not shown": {
			connections: []networkingv1beta1.Connection{connection("milan", "gw", 0, networkingv1beta1.Connected, "fast")},
			want:        connectedHeader + `liqo_peer_is_connected{cluster_id="milan",driver="wireguard"} 1` + "\n",
		},
		"the oldest of several Connections of a peer counts": {
			connections: []networkingv1beta1.Connection{
				connection("milan", "a", 0, networkingv1beta1.Connected, ""), connection("milan", "b", time.Hour, networkingv1beta1.Connecting, ""),
				connection("turin", "b", 0, networkingv1beta1.Connecting, ""), connection("turin", "a", 0, networkingv1beta1.Connected, ""),
			},
			want: connectedHeader + `liqo_peer_is_connected{cluster_id="milan",driver="wireguard"} 0
liqo_peer_is_connected{cluster_id="turin",driver="wireguard"} 1
`,
		},
		"a Connection without the label of a peer is not shown": {
			connections: []networkingv1beta1.Connection{connection("", "gw", 0, networkingv1beta1.Connected, "1ms")},
		},
		"nothing is shown when the Connections cannot be listed": {
			connections: []networkingv1beta1.Connection{connection("milan", "gw", 0, networkingv1beta1.Connected, "1ms")}, err: errors.New("not synced"),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			require.NoError(t, registry.Register(NewPeers(&connections{items: tc.connections, err: tc.err})))
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(tc.want), "liqo_peer_is_connected", "liqo_peer_latency_us"))
		})
	}
}

func TestTheHistogramHasOneObservationForEachScrape(t *testing.T) {
	cache := &connections{items: []networkingv1beta1.Connection{connection("milan", "gw", 0, networkingv1beta1.Connected, "12ms")}}
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(NewPeers(cache)))
	var count, below uint64
	var bounds []float64
	for range 3 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() != "liqo_peer_latency_histogram_us" {
				continue
			}
			histogram := family.GetMetric()[0].GetHistogram()
			count, below, bounds = histogram.GetSampleCount(), histogram.GetBucket()[1].GetCumulativeCount(), nil
			assert.Zero(t, histogram.GetBucket()[0].GetCumulativeCount())
			for _, bucket := range histogram.GetBucket() {
				bounds = append(bounds, bucket.GetUpperBound())
			}
		}
	}
	assert.EqualValues(t, 3, count)
	assert.EqualValues(t, 3, below, "12 ms are below 15,000 microseconds")
	assert.Equal(t, []float64{10000, 15000, 20000, 36250, 52500, 68750, 85000, 101250, 117500, 133750, 150000, 178380, 212129, 252264, 299992}, bounds)

	cache.items = nil
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(""), "liqo_peer_latency_histogram_us"), "the series of a peer that is gone is deleted")
}

func TestReflectionHasTheLabelsOfLiqo(t *testing.T) {
	r := NewReflection("milan", "milan-node")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Items, r.Failures)
	r.Count("shop", "pod", nil)
	r.Count("shop", "pod", nil)
	r.Count("shop", "serviceaccount", errors.New("conflict"))
	r.Count("shop", "certificate.cert-manager.io", nil)
	r.Count("bank", "pod", nil)
	r.Forget("bank", "pod")
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP liqo_virtual_kubelet_reflection_error_counter Failed reconciliations of objects of a reflected namespace, which are tried again.
# TYPE liqo_virtual_kubelet_reflection_error_counter counter
liqo_virtual_kubelet_reflection_error_counter{cluster_id="milan",namespace="shop",node_name="milan-node",reflector_resource="ServiceAccount"} 1
# HELP liqo_virtual_kubelet_reflection_item_counter Reconciled objects of a reflected namespace. A fast increase indicates that local and remote controllers revert each other.
# TYPE liqo_virtual_kubelet_reflection_item_counter counter
liqo_virtual_kubelet_reflection_item_counter{cluster_id="milan",namespace="shop",node_name="milan-node",reflector_resource="Pod"} 2
liqo_virtual_kubelet_reflection_item_counter{cluster_id="milan",namespace="shop",node_name="milan-node",reflector_resource="certificate.cert-manager.io"} 1
`)))
}
