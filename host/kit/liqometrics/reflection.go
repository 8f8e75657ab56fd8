package liqometrics

import "github.com/prometheus/client_golang/prometheus"

// Reflection counts the objects that a virtual kubelet reconciles. It may be called concurrently.
type Reflection struct {
	// Items counts the successes, Failures the failures.
	Items, Failures *prometheus.CounterVec
	cluster, node   string
}

// NewReflection returns the counters of the virtual node of a provider. They are not registered.
func NewReflection(cluster, node string) *Reflection {
	items, failures := newReflectionCounters()
	return &Reflection{Items: items, Failures: failures, cluster: cluster, node: node}
}

// Count counts a reconciliation of an object of a namespace of the consumer.
func (r *Reflection) Count(namespace, resource string, err error) {
	counter := r.Items
	if err != nil {
		counter = r.Failures
	}
	counter.WithLabelValues(namespace, reflectorOf(resource), r.cluster, r.node).Inc()
}

// Forget deletes the series of a resource in a namespace that is no longer reflected.
func (r *Reflection) Forget(namespace, resource string) {
	r.Items.DeleteLabelValues(namespace, reflectorOf(resource), r.cluster, r.node)
	r.Failures.DeleteLabelValues(namespace, reflectorOf(resource), r.cluster, r.node)
}

func reflectorOf(resource string) string {
	if name, ok := reflectors[resource]; ok {
		return name
	}
	return resource
}
