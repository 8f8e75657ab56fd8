package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/longshore-dev/longshore/host/kit/liqometrics"
)

// The values of the label direction.
const (
	directionOut = "local_to_remote"
	directionIn  = "remote_to_local"
)

// The values of the label result.
const (
	resultOK    = "ok"
	resultError = "error"
)

// metrics counts what the engine does.
type metrics struct {
	// operations is longshore_reflection_operations_total: requests sent because of a
	// decision, by resource (pod, configmap, …), direction (local_to_remote,
	// remote_to_local), operation (create, apply, patch, patch_status, delete, get, list) and
	// result (ok, error).
	operations *prometheus.CounterVec
	// lag is longshore_reflection_lag_seconds: from an event to the end of its decision,
	// requests included, by resource and direction.
	lag *prometheus.HistogramVec
	// panics is longshore_reflection_panics_total: decisions that panicked, by resource.
	panics *prometheus.CounterVec
	// liqo has the counters of the reference.
	liqo *liqometrics.Reflection
}

// newMetrics returns the metrics of the virtual node of a provider.
func newMetrics(registerer prometheus.Registerer, cluster, node string) (*metrics, error) {
	m := &metrics{
		liqo: liqometrics.NewReflection(cluster, node),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_reflection_operations_total",
			Help: "Requests that the reflection engine sent, by resource, direction, operation and result.",
		}, []string{"resource", "direction", "operation", "result"}),
		lag: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "longshore_reflection_lag_seconds",
			Help:    "Time from an event to the end of the decision that it led to, by resource and direction.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30},
		}, []string{"resource", "direction"}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "longshore_reflection_panics_total",
			Help: "Decisions that ended in a panic, which is a bug of Longshore, by resource.",
		}, []string{"resource"}),
	}
	if registerer == nil {
		return m, nil
	}
	var errs [5]error
	m.operations, errs[0] = registerShared(registerer, m.operations)
	m.lag, errs[1] = registerShared(registerer, m.lag)
	m.panics, errs[2] = registerShared(registerer, m.panics)
	m.liqo.Items, errs[3] = registerShared(registerer, m.liqo.Items)
	m.liqo.Failures, errs[4] = registerShared(registerer, m.liqo.Failures)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("registering reflection metrics: %w", err)
	}
	return m, nil
}

// registerShared registers a collector, or returns the equal one that another engine of the
// process has registered.
func registerShared[C prometheus.Collector](registerer prometheus.Registerer, collector C) (C, error) {
	err := registerer.Register(collector)
	var registered prometheus.AlreadyRegisteredError
	if errors.As(err, &registered) {
		if existing, ok := registered.ExistingCollector.(C); ok {
			return existing, nil
		}
	}
	return collector, err //nolint:wrapcheck // newMetrics wraps it
}

func (m *metrics) observeLag(resource string, isLocal bool, lag time.Duration) {
	direction := directionIn
	if isLocal {
		direction = directionOut
	}
	m.lag.WithLabelValues(resource, direction).Observe(lag.Seconds())
}

func (m *metrics) observe(resource, direction, operation string, err error) {
	result := resultOK
	if err != nil {
		result = resultError
	}
	m.operations.WithLabelValues(resource, direction, operation, result).Inc()
}
