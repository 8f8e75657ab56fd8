package engine

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
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
	// remote_to_local), operation (create, apply, patch, patch_status, delete, get) and
	// result (ok, error).
	operations *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	operations := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "longshore_reflection_operations_total",
		Help: "Requests that the reflection engine sent, by resource, direction, operation and result.",
	}, []string{"resource", "direction", "operation", "result"})
	if registerer != nil {
		if err := registerer.Register(operations); err != nil {
			var already prometheus.AlreadyRegisteredError
			if !errors.As(err, &already) {
				return nil, fmt.Errorf("registering reflection metrics: %w", err)
			}
			existing, ok := already.ExistingCollector.(*prometheus.CounterVec)
			if !ok {
				return nil, fmt.Errorf("registering reflection metrics: %w", err)
			}
			operations = existing
		}
	}
	return &metrics{operations: operations}, nil
}

func (m *metrics) observe(resource, direction, operation string, err error) {
	result := resultOK
	if err != nil {
		result = resultError
	}
	m.operations.WithLabelValues(resource, direction, operation, result).Inc()
}
