package kubelet

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

const (
	// maxMetricsRequests bounds the concurrent requests of one scrape.
	maxMetricsRequests = 8
	// minCoreSeconds is the first value of a counter: metrics-server drops pods with a counter
	// of zero.
	minCoreSeconds = 1e-6
)

// usage is what a container uses. The API of the provider reports rates; coreSeconds is the
// sum since startTime.
type usage struct {
	name             string
	cores            float64
	coreSeconds      float64
	memoryBytes      uint64
	startTime, until time.Time
}

// podUsage is what a local pod uses in the provider.
type podUsage struct {
	pod        *corev1.Pod
	containers []usage
}

// total returns the sum of the pod's containers. Its time is that of the latest sample.
func (p podUsage) total() usage {
	var sum usage
	for _, c := range p.containers {
		sum.cores += c.cores
		sum.coreSeconds += c.coreSeconds
		sum.memoryBytes += c.memoryBytes
		if c.until.After(sum.until) {
			sum.until = c.until
		}
	}
	return sum
}

// counter sums the samples of one container, or of the node.
type counter struct {
	startTime, until time.Time
	coreSeconds      float64
}

// add returns the counter with a sample: cores were used during the window before at. A sample
// that is not newer than the last one changes nothing. The first sample counts for its window.
func (c counter) add(cores float64, at time.Time, window time.Duration) counter {
	switch {
	case c.until.IsZero():
		c.startTime = at.Add(-window)
		c.coreSeconds = max(minCoreSeconds, cores*window.Seconds())
	case at.After(c.until):
		c.coreSeconds += cores * at.Sub(c.until).Seconds()
	default:
		return c
	}
	c.until = at
	return c
}

// counterKey is the key of a container's counter. That of the node is zero.
type counterKey struct {
	pod       types.UID
	container string
}

// counters keep the counters between scrapes. They are safe for concurrent use.
type counters struct {
	mu     sync.Mutex
	values map[counterKey]counter
}

// record adds the metrics of the pods, and returns what they and the node use. Counters of
// pods that are not in pods are forgotten.
func (c *counters) record(pods []*corev1.Pod, metrics map[types.UID]*metricsv1beta1.PodMetrics) (usages []podUsage, node usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[counterKey]counter{}
	exists := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		exists[pod.UID] = true
	}
	for key, value := range c.values {
		if key.pod == "" || exists[key.pod] {
			next[key] = value
		}
	}
	node.name = "node"
	var window time.Duration
	for _, pod := range pods {
		m := metrics[pod.UID]
		if m == nil || quantity.CheckAll(m.Containers) != nil {
			continue
		}
		p := podUsage{pod: pod}
		for i := range m.Containers {
			container := &m.Containers[i]
			key, cores := counterKey{pod.UID, container.Name}, container.Usage.Cpu().AsApproximateFloat64()
			value := next[key].add(cores, m.Timestamp.Time, m.Window.Duration)
			next[key] = value
			p.containers = append(p.containers, usage{
				name: container.Name, cores: cores, memoryBytes: uint64(max(0, container.Usage.Memory().Value())),
				coreSeconds: value.coreSeconds, startTime: value.startTime, until: value.until,
			})
		}
		sum := p.total()
		node.cores += sum.cores
		node.memoryBytes += sum.memoryBytes
		if sum.until.After(node.until) {
			node.until, window = sum.until, m.Window.Duration
		}
		usages = append(usages, p)
	}
	if !node.until.IsZero() {
		next[counterKey{}] = next[counterKey{}].add(node.cores, node.until, window)
		value := next[counterKey{}]
		node.coreSeconds, node.startTime, node.until = value.coreSeconds, value.startTime, value.until
	}
	c.values = next
	return usages, node
}

// gather returns what the pods of the node use. Pods without metrics are left out, as are
// metrics of pods that the node does not have (T26).
func (p *remotePods) gather(ctx context.Context) ([]podUsage, usage, error) {
	pods := slices.Clone(p.pods.Pods())
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	byRemote := map[string]map[string]types.UID{}
	for _, pod := range pods {
		remote, ok := p.pods.Remote(pod.Namespace, pod.Name)
		if !ok {
			continue
		}
		if byRemote[remote] == nil {
			byRemote[remote] = map[string]types.UID{}
		}
		byRemote[remote][pod.Name] = pod.UID
	}
	metrics, err := p.listMetrics(ctx, byRemote)
	if err != nil {
		return nil, usage{}, err
	}
	usages, node := p.counters.record(pods, metrics)
	return usages, node, nil
}

// listMetrics returns the metrics of remote pods, by the UID of the local pod. A namespace that
// fails is left out, unless all do.
func (p *remotePods) listMetrics(ctx context.Context, byRemote map[string]map[string]types.UID) (map[types.UID]*metricsv1beta1.PodMetrics, error) {
	selector := labels.FormatLabels(map[string]string{
		offloadingv1beta1.OriginLabel: p.provider.options.HomeClusterID, offloadingv1beta1.DestinationLabel: p.provider.options.ForeignClusterID,
		offloadingv1beta1.NodeNameLabel: p.provider.options.NodeName,
	})
	var mu sync.Mutex
	var failures []error
	found := map[types.UID]*metricsv1beta1.PodMetrics{}
	var group errgroup.Group
	group.SetLimit(maxMetricsRequests)
	for remote, uids := range byRemote {
		group.Go(func() error {
			list, err := p.provider.metrics.PodMetricses(remote).List(ctx, metav1.ListOptions{LabelSelector: selector})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = append(failures, fmt.Errorf("listing the metrics of pods in namespace %q of the provider: %w", remote, err))
				return nil
			}
			for i := range list.Items {
				if uid, ok := uids[list.Items[i].Name]; ok {
					found[uid] = &list.Items[i]
				}
			}
			return nil
		})
	}
	_ = group.Wait()
	if err := utilerrors.NewAggregate(failures); err != nil {
		if len(failures) == len(byRemote) {
			if apierrors.IsNotFound(failures[0]) || apierrors.IsServiceUnavailable(failures[0]) {
				return nil, fmt.Errorf("the provider serves no metrics.k8s.io API; its administrator can install metrics-server: %w", failures[0])
			}
			return nil, fmt.Errorf("reading the metrics of all namespaces: %w", err)
		}
		logr.FromContextOrDiscard(ctx).Error(err, "Reading the metrics of some namespaces failed")
	}
	return found, nil
}

// stats serves /stats/summary.
func (p *remotePods) stats(ctx context.Context) (*statsv1alpha1.Summary, error) {
	pods, node, err := p.gather(ctx)
	if err != nil {
		return nil, err
	}
	return summarize(p.provider.options.NodeName, node, pods), nil
}

// summarize returns the summary of a node: the local pods with what their remote pods use.
func summarize(nodeName string, node usage, pods []podUsage) *statsv1alpha1.Summary {
	summary := &statsv1alpha1.Summary{Node: statsv1alpha1.NodeStats{
		NodeName: nodeName, StartTime: metav1.NewTime(node.startTime), CPU: node.cpuStats(), Memory: node.memoryStats(),
	}, Pods: []statsv1alpha1.PodStats{}}
	for _, p := range pods {
		total := p.total()
		stats := statsv1alpha1.PodStats{
			PodRef:    statsv1alpha1.PodReference{Name: p.pod.Name, Namespace: p.pod.Namespace, UID: string(p.pod.UID)},
			StartTime: p.pod.CreationTimestamp, CPU: total.cpuStats(), Memory: total.memoryStats(),
		}
		for _, c := range p.containers {
			stats.Containers = append(stats.Containers, statsv1alpha1.ContainerStats{
				Name: c.name, StartTime: p.pod.CreationTimestamp, CPU: c.cpuStats(), Memory: c.memoryStats(),
			})
		}
		summary.Pods = append(summary.Pods, stats)
	}
	return summary
}

func (u usage) cpuStats() *statsv1alpha1.CPUStats {
	nanoCores, nanoSeconds := uint64(u.cores*1e9), uint64(u.coreSeconds*1e9)
	return &statsv1alpha1.CPUStats{Time: metav1.NewTime(u.until), UsageNanoCores: &nanoCores, UsageCoreNanoSeconds: &nanoSeconds}
}

func (u usage) memoryStats() *statsv1alpha1.MemoryStats {
	return &statsv1alpha1.MemoryStats{Time: metav1.NewTime(u.until), UsageBytes: &u.memoryBytes, WorkingSetBytes: &u.memoryBytes}
}

// resourceMetrics serves /metrics/resource, which metrics-server scrapes.
func (p *remotePods) resourceMetrics(ctx context.Context) ([]*dto.MetricFamily, error) {
	pods, node, err := p.gather(ctx)
	if err != nil {
		return nil, err
	}
	return families(node, pods), nil
}

// families returns the metrics of a kubelet's /metrics/resource. Families without samples are
// left out.
func families(node usage, pods []podUsage) []*dto.MetricFamily {
	byName := map[string]*dto.MetricFamily{}
	sample := func(name, help string, kind dto.MetricType, value float64, at time.Time, labels map[string]string) {
		family := byName[name]
		if family == nil {
			family = &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
			byName[name] = family
		}
		metric := &dto.Metric{}
		if !at.IsZero() {
			metric.TimestampMs = new(int64)
			*metric.TimestampMs = at.UnixMilli()
		}
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			value := labels[label]
			metric.Label = append(metric.Label, &dto.LabelPair{Name: &label, Value: &value})
		}
		if kind == dto.MetricType_COUNTER {
			metric.Counter = &dto.Counter{Value: &value}
		} else {
			metric.Gauge = &dto.Gauge{Value: &value}
		}
		family.Metric = append(family.Metric, metric)
	}
	consumption := func(subject string, u usage, labels map[string]string) {
		sample(subject+"_cpu_usage_seconds_total", "Cumulative CPU time used by the "+subject+" in core-seconds", dto.MetricType_COUNTER, u.coreSeconds, u.until, labels)
		sample(subject+"_memory_working_set_bytes", "Working set of the "+subject+" in bytes", dto.MetricType_GAUGE, float64(u.memoryBytes), u.until, labels)
	}
	if !node.until.IsZero() {
		consumption("node", node, nil)
	}
	for _, p := range pods {
		consumption("pod", p.total(), map[string]string{"namespace": p.pod.Namespace, "pod": p.pod.Name})
		for _, c := range p.containers {
			container := map[string]string{"namespace": p.pod.Namespace, "pod": p.pod.Name, "container": c.name}
			consumption("container", c, container)
			sample("container_start_time_seconds", "Start time of the container's counters since unix epoch in seconds", dto.MetricType_GAUGE,
				float64(c.startTime.UnixNano())/1e9, time.Time{}, container)
		}
	}
	sample("resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", dto.MetricType_GAUGE, 0, time.Time{}, nil)
	var out []*dto.MetricFamily
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

// scrape returns a handler that responds with the metrics that the provider's metric agent
// collects for this consumer (wire 3.12). Providers without the agent respond with 404.
func (p *remotePods) scrape(urlPath string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, err := p.provider.core.RESTClient().Get().
			AbsPath("/apis/metrics.liqo.io/v1beta1/scrape", p.provider.options.HomeClusterID, urlPath).DoRaw(r.Context())
		switch {
		case apierrors.IsNotFound(err):
			http.Error(w, "the provider does not serve metrics.liqo.io", http.StatusNotFound)
		case err != nil:
			http.Error(w, fmt.Sprintf("reading %s from the provider: %v", urlPath, err), http.StatusBadGateway)
		default:
			w.Header().Set("Content-Type", api.PrometheusTextFormatContentType)
			_, _ = w.Write(raw)
		}
	}
}
