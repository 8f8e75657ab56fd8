package kubelet

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/longshore-dev/longshore/host/kit/apitime"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

const (
	// minCoreSeconds is the first value of a counter: metrics-server drops pods with a counter
	// of zero.
	minCoreSeconds = 1e-6
	// maxCores and maxMemory bound what a container uses, and maxWindow the time over which it was measured: more
	// than any machine has, and sums of all containers of a node do not overflow.
	maxCores, maxMemory = 1 << 14, 1 << 46
	maxWindow           = time.Hour
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

// podUsage is what a local pod uses in the provider. The time of total is that of the latest sample.
type podUsage struct {
	pod        *corev1.Pod
	containers []usage
	total      usage
}

// sample is what the provider reports of a pod, within bounds.
type sample struct {
	at         time.Time
	window     time.Duration
	containers map[string]usage // by name, without times
}

// readSample returns what is used of metrics of a provider: of each container that the local pod has, the first
// that it reports. A time in the future is now, since no later one would count after it.
func readSample(pod *corev1.Pod, metrics *metricsv1beta1.PodMetrics, now time.Time) sample {
	s := sample{at: apitime.Bound(metrics.Timestamp).Time, window: min(max(metrics.Window.Duration, 0), maxWindow), containers: map[string]usage{}}
	if s.at.IsZero() {
		return sample{}
	}
	if s.at.After(now) {
		s.at = now
	}
	for _, name := range containersOf(pod) {
		at := slices.IndexFunc(metrics.Containers, func(c metricsv1beta1.ContainerMetrics) bool { return c.Name == name })
		if at < 0 {
			continue
		}
		cpu, memory := metrics.Containers[at].Usage[corev1.ResourceCPU], metrics.Containers[at].Usage[corev1.ResourceMemory]
		if quantity.Check(cpu) != nil || quantity.Check(memory) != nil {
			continue
		}
		s.containers[name] = usage{name: name, cores: min(cpu.AsApproximateFloat64(), maxCores), memoryBytes: uint64(min(max(memory.Value(), 0), maxMemory))}
	}
	return s
}

// containersOf returns the names of all containers of a pod. A kubelet reports those that run.
func containersOf(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	return names
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

// counterKey is the key of a container's counter.
type counterKey struct {
	pod       types.UID
	container string
}

// counters keep the counters between scrapes. They are safe for concurrent use.
type counters struct {
	mu     sync.Mutex
	values map[counterKey]counter
	node   counter
}

// record adds the samples of the pods, and returns what they and the node use. Only counters of the pods'
// containers are kept.
func (c *counters) record(pods []*corev1.Pod, samples map[types.UID]sample) (usages []podUsage, node usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[counterKey]counter{}
	node.name = "node"
	var window time.Duration
	for _, pod := range pods {
		s := samples[pod.UID]
		p := c.recordPod(pod, s, next)
		if len(p.containers) == 0 {
			continue
		}
		node.cores += p.total.cores
		node.memoryBytes += p.total.memoryBytes
		if p.total.until.After(node.until) {
			node.until, window = p.total.until, s.window
		}
		usages = append(usages, p)
	}
	c.values = next
	if !node.until.IsZero() {
		c.node = c.node.add(node.cores, node.until, window)
		node.coreSeconds, node.startTime, node.until = c.node.coreSeconds, c.node.startTime, c.node.until
	}
	return usages, node
}

// recordPod adds the sample of a pod, and the counters of its containers to next. The total has those of
// containers that are not reported any more, too: it must not go backwards.
func (c *counters) recordPod(pod *corev1.Pod, s sample, next map[counterKey]counter) podUsage {
	p := podUsage{pod: pod}
	for _, name := range containersOf(pod) {
		key := counterKey{pod.UID, name}
		value, isKnown := c.values[key]
		container, isReported := s.containers[name]
		if !isKnown && !isReported {
			continue
		}
		if isReported {
			value = value.add(container.cores, s.at, s.window)
			container.coreSeconds, container.startTime, container.until = value.coreSeconds, value.startTime, value.until
			p.containers = append(p.containers, container)
		}
		next[key] = value
		p.total.cores += container.cores
		p.total.memoryBytes += container.memoryBytes
		p.total.coreSeconds += value.coreSeconds
		if value.until.After(p.total.until) {
			p.total.until = value.until
		}
	}
	return p
}
