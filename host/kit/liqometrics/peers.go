package liqometrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
)

// scrapeTimeout limits a read from the cache, which waits while the cache is filled.
const scrapeTimeout = time.Second

// Peers is a collector of the status of the Connections, one for each peer.
type Peers struct {
	// reader lists Connections from a cache.
	reader client.Reader

	// mu is held while the metrics are collected.
	mu      sync.Mutex
	latency *prometheus.HistogramVec
	// observed are the peers that the histogram has.
	observed map[string]bool
}

// NewPeers returns a collector that lists the Connections from a cache.
func NewPeers(reader client.Reader) *Peers {
	return &Peers{reader: reader, latency: newLatencyHistogram(), observed: map[string]bool{}}
}

// Describe implements prometheus.Collector.
func (p *Peers) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- peerIsConnected
	descriptions <- peerLatency
	p.latency.Describe(descriptions)
}

// Collect implements prometheus.Collector. It collects nothing when the Connections cannot be listed.
func (p *Peers) Collect(collected chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // The interface has no context.
	defer cancel()
	list := &networkingv1beta1.ConnectionList{}
	if err := p.reader.List(ctx, list); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	peers := oldestOfEachPeer(list.Items)
	for peer := range p.observed {
		if peers[peer] == nil {
			p.latency.DeleteLabelValues(driver, peer)
			delete(p.observed, peer)
		}
	}
	for peer, connection := range peers {
		connected := 0.0
		if connection.Status.Value == networkingv1beta1.Connected {
			connected = 1
		}
		collected <- prometheus.MustNewConstMetric(peerIsConnected, prometheus.GaugeValue, connected, driver, peer)
		latency, ok := latencyOf(connection)
		if !ok {
			continue
		}
		collected <- prometheus.MustNewConstMetric(peerLatency, prometheus.GaugeValue, latency, driver, peer)
		p.latency.WithLabelValues(driver, peer).Observe(latency)
		p.observed[peer] = true
	}
	p.latency.Collect(collected)
}

// oldestOfEachPeer returns the Connection of each peer that was created first, as the
// ForeignCluster shows it.
func oldestOfEachPeer(connections []networkingv1beta1.Connection) map[string]*networkingv1beta1.Connection {
	peers := map[string]*networkingv1beta1.Connection{}
	for i := range connections {
		c := &connections[i]
		peer := c.Labels[liqocorev1beta1.RemoteClusterIDLabel]
		if peer == "" {
			continue
		}
		if known := peers[peer]; known == nil || isOlder(c, known) {
			peers[peer] = c
		}
	}
	return peers
}

// isOlder compares by name what was created at the same time.
func isOlder(a, b *networkingv1beta1.Connection) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// latencyOf returns the latency of a connected peer in microseconds.
func latencyOf(c *networkingv1beta1.Connection) (microseconds float64, ok bool) {
	if c.Status.Value != networkingv1beta1.Connected || c.Status.Latency == nil {
		return 0, false
	}
	latency, err := time.ParseDuration(c.Status.Latency.Value)
	if err != nil {
		return 0, false
	}
	return float64(latency) / float64(time.Microsecond), true
}
