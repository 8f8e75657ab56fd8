package policysource

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/longshore-dev/longshore/host/policy/chain"
)

// Labels of the policy metrics. Modules are as many as the operator has policies; no
// label holds the name of a user's object.
const (
	labelModule = "module"
	labelPoint  = "extension_point"
	labelResult = "result"
)

// Metrics count what the chains ask. It is a chain.Observer.
type Metrics struct {
	calls     *prometheus.CounterVec
	durations *prometheus.HistogramVec
	fuel      *prometheus.CounterVec
}

var _ chain.Observer = (*Metrics)(nil)

// NewMetrics registers the policy metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_policy_calls_total",
			Help: "Questions to policies, by how they ended: answered, remembered, denied, failed, ignored.",
		}, []string{labelModule, labelPoint, labelResult}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "longshore_policy_call_duration_seconds",
			Help:    "Time from a question to its applied answer, remembered ones included.",
			Buckets: []float64{1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.5},
		}, []string{labelModule, labelPoint}),
		fuel: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_policy_fuel_ticks_total",
			Help: "Fuel that calls used, in ticks; compare with the limit of a call.",
		}, []string{labelModule, labelPoint}),
	}
	for _, collector := range []prometheus.Collector{m.calls, m.durations, m.fuel} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("registering policy metrics: %w", err)
		}
	}
	return m, nil
}

// Observe implements chain.Observer.
func (m *Metrics) Observe(o chain.Observation) {
	point := string(o.Point)
	m.calls.WithLabelValues(o.Module, point, string(o.Outcome)).Inc()
	m.durations.WithLabelValues(o.Module, point).Observe(o.Duration.Seconds())
	if o.Stats.Ticks > 0 {
		m.fuel.WithLabelValues(o.Module, point).Add(float64(o.Stats.Ticks))
	}
}
