package kubelet

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
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
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

const (
	// maxMetricsRequests bounds the concurrent requests of one scrape.
	maxMetricsRequests = 8
	// An answer with the metrics of a namespace may have so many bytes, and values in JSON, and more for each local
	// pod and each of its containers. What there is without them is for remote pods that outlive theirs.
	maxAnswer, maxAnswerOfPod, maxAnswerOfContainer = 1 << 20, 8 << 10, 1 << 10
	maxValues, maxValuesOfPod, maxValuesOfContainer = 10_000, 100, 10
	// maxErrorText bounds what an error says of an answer, in bytes.
	maxErrorText = 512
)

// gather returns what the pods of the node use. Pods without metrics are left out, as are
// metrics of pods that the node does not have, and pods that have ended.
func (p *remotePods) gather(ctx context.Context) ([]podUsage, usage, error) {
	pods := slices.DeleteFunc(slices.Clone(p.pods.Pods()), func(pod *corev1.Pod) bool { return podend.IsTerminal(pod.Status.Phase) })
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	byRemote := map[string]map[string]*corev1.Pod{}
	for _, pod := range pods {
		remote, ok := p.pods.Remote(pod.Namespace, pod.Name)
		if !ok {
			continue
		}
		if byRemote[remote] == nil {
			byRemote[remote] = map[string]*corev1.Pod{}
		}
		byRemote[remote][pod.Name] = pod
	}
	samples, err := p.listMetrics(ctx, byRemote, p.provider.options.Now())
	if err != nil {
		return nil, usage{}, err
	}
	usages, node := p.counters.record(pods, samples)
	return usages, node, nil
}

// listMetrics returns what remote pods use, by the UID of the local pod. A namespace that
// fails is left out, unless all do. A provider without metrics-server has no metrics: an error would
// make the Node a target that is down for ever.
func (p *remotePods) listMetrics(ctx context.Context, byRemote map[string]map[string]*corev1.Pod, now time.Time) (map[types.UID]sample, error) {
	selector := labels.FormatLabels(map[string]string{
		offloadingv1beta1.OriginLabel: p.provider.options.HomeClusterID, offloadingv1beta1.DestinationLabel: p.provider.options.ForeignClusterID,
		offloadingv1beta1.NodeNameLabel: p.provider.options.NodeName,
	})
	var mu sync.Mutex
	var failures []error
	isServed := false
	found := map[types.UID]sample{}
	var group errgroup.Group
	group.SetLimit(maxMetricsRequests)
	for remote, pods := range byRemote {
		group.Go(func() error {
			list, err := p.provider.metrics.PodMetricses(remote).List(withLimitsFor(ctx, pods), metav1.ListOptions{LabelSelector: selector})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				isServed = isServed || !apierrors.IsNotFound(err)
				failures = append(failures, fmt.Errorf("listing the metrics of pods in namespace %q of the provider: %s", remote, events.Cut(err.Error(), maxErrorText)))
				return nil
			}
			for i := range list.Items {
				pod, ok := pods[list.Items[i].Name]
				if !ok {
					continue
				}
				if _, isKnown := found[pod.UID]; !isKnown {
					found[pod.UID] = readSample(pod, &list.Items[i], now)
				}
			}
			return nil
		})
	}
	_ = group.Wait()
	switch {
	case len(failures) == 0:
		return found, nil
	case len(failures) < len(byRemote):
		logr.FromContextOrDiscard(ctx).Error(failures[0], "Reading the metrics of some namespaces failed", "namespaces", len(failures))
		return found, nil
	case !isServed:
		logr.FromContextOrDiscard(ctx).V(1).Info("The provider serves no metrics.k8s.io: its administrator can install metrics-server")
		return found, nil
	default:
		return nil, fmt.Errorf("reading the metrics of all namespaces: %w", failures[0])
	}
}

// withLimitsFor returns a context for an answer with the metrics of pods.
func withLimitsFor(ctx context.Context, pods map[string]*corev1.Pod) context.Context {
	size, values := maxAnswer+maxAnswerOfPod*len(pods), maxValues+maxValuesOfPod*len(pods)
	for _, pod := range pods {
		containers := len(containersOf(pod))
		size += maxAnswerOfContainer * containers
		values += maxValuesOfContainer * containers
	}
	return remotecluster.WithLimits(ctx, int64(size), values)
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
		stats := statsv1alpha1.PodStats{
			PodRef:    statsv1alpha1.PodReference{Name: p.pod.Name, Namespace: p.pod.Namespace, UID: string(p.pod.UID)},
			StartTime: p.pod.CreationTimestamp, CPU: p.total.cpuStats(), Memory: p.total.memoryStats(),
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
	nanoCores, nanoSeconds := nano(u.cores), nano(u.coreSeconds)
	return &statsv1alpha1.CPUStats{Time: metav1.NewTime(u.until), UsageNanoCores: &nanoCores, UsageCoreNanoSeconds: &nanoSeconds}
}

// nano returns billionths of an amount, or the largest number: one that overflows would go backwards.
func nano(amount float64) uint64 { return uint64(min(amount*1e9, math.MaxInt64)) }

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
		consumption("pod", p.total, map[string]string{"namespace": p.pod.Namespace, "pod": p.pod.Name})
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
// collects for this consumer. Of a provider without the agent there are none: another answer would
// make the Node a target that is down for ever. Such a provider finds no such API, or denies it.
func (p *remotePods) scrape(urlPath string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// They may be many, and are not kept.
		stream, err := p.provider.core.RESTClient().Get().
			AbsPath("/apis/metrics.liqo.io/v1beta1/scrape", p.provider.options.HomeClusterID, urlPath).Stream(r.Context())
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			w.Header().Set("Content-Type", api.PrometheusTextFormatContentType)
			_, _ = io.WriteString(w, "# The provider does not serve metrics.liqo.io to this cluster.\n")
		case err != nil:
			http.Error(w, fmt.Sprintf("reading %s from the provider: %s", urlPath, events.Cut(err.Error(), maxErrorText)), http.StatusBadGateway)
		default:
			defer func() { _ = stream.Close() }()
			w.Header().Set("Content-Type", api.PrometheusTextFormatContentType)
			if _, err := io.Copy(w, stream); err != nil {
				panic(http.ErrAbortHandler) // The client must not take a part for the whole.
			}
		}
	}
}
