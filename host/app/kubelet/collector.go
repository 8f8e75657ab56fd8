package kubelet

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// sessionCollector collects the metrics of the running session: a registry takes each
// metric once, and a session may follow another. Its counters start anew then, which
// Prometheus takes for a restart.
type sessionCollector struct {
	current atomic.Pointer[prometheus.Registry]
}

func (c *sessionCollector) set(registry *prometheus.Registry) { c.current.Store(registry) }

// Describe implements prometheus.Collector; what is collected is not known beforehand.
func (c *sessionCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *sessionCollector) Collect(metrics chan<- prometheus.Metric) {
	if registry := c.current.Load(); registry != nil {
		registry.Collect(metrics)
	}
}
