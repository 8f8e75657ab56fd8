package quota

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// scrapeTimeout limits a read from the cache, which waits while the cache is filled.
const scrapeTimeout = time.Second

var usedRatio = prometheus.NewDesc("longshore_quota_used_ratio", "Share of a resource that is used of the Quota with the least left of it.", []string{"resource"}, nil)

// Metrics is a collector of the use of all Quotas. Its labels do not name users.
type Metrics struct {
	// Reader lists Quotas from a cache.
	Reader client.Reader
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- usedRatio }

// Collect implements prometheus.Collector. It collects nothing when the Quotas cannot be listed.
func (m *Metrics) Collect(collected chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // The interface has no context.
	defer cancel()
	list := &offloadingv1beta1.QuotaList{}
	if err := m.Reader.List(ctx, list); err != nil {
		return
	}
	ratios := fullest(list.Items)
	for _, name := range slices.Sorted(maps.Keys(ratios)) {
		collected <- prometheus.MustNewConstMetric(usedRatio, prometheus.GaugeValue, ratios[name], string(name))
	}
}

// fullest returns, for each resource, the share that is used of the Quota with the least left of it.
func fullest(quotas []offloadingv1beta1.Quota) map[corev1.ResourceName]float64 {
	ratios := map[corev1.ResourceName]float64{}
	for i := range quotas {
		for name, hard := range quotas[i].Spec.Resources {
			if hard.IsZero() {
				continue
			}
			used := quotas[i].Status.Used[name]
			ratios[name] = max(ratios[name], used.AsApproximateFloat64()/hard.AsApproximateFloat64())
		}
	}
	return ratios
}
