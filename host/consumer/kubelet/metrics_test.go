package kubelet

import (
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestCounterSumsSamples(t *testing.T) {
	const window = 10 * time.Second
	first := counter{}.add(0.5, noon, window)
	for name, tc := range map[string]struct {
		from  counter
		cores float64
		after time.Duration
		want  counter
	}{
		"the first sample counts for its window":        {counter{}, 0.5, 0, counter{noon.Add(-window), noon, 5}},
		"an idle container does not start at zero":      {counter{}, 0, 0, counter{noon.Add(-window), noon, minCoreSeconds}},
		"the next sample counts since the last":         {first, 2, 30 * time.Second, counter{noon.Add(-window), noon.Add(30 * time.Second), 65}},
		"the same sample does not count twice":          {first, 2, 0, first},
		"an older sample does not lower the counter":    {first, 2, -time.Second, first},
		"an idle interval leaves the counter unchanged": {first, 0, time.Minute, counter{noon.Add(-window), noon.Add(time.Minute), 5}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, tc.from.add(tc.cores, noon.Add(tc.after), window))
		})
	}
}

func localPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "proxy"}}, Containers: []corev1.Container{{Name: "main"}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}},
		},
	}
}

// reported returns what the provider reports of containers.
func reported(at time.Time, containers ...metricsv1beta1.ContainerMetrics) *metricsv1beta1.PodMetrics {
	return &metricsv1beta1.PodMetrics{Timestamp: metav1.NewTime(at), Window: metav1.Duration{Duration: 10 * time.Second}, Containers: containers}
}

func using(name, cpu, memory string) metricsv1beta1.ContainerMetrics {
	return metricsv1beta1.ContainerMetrics{Name: name, Usage: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
}

func sampleOf(pod *corev1.Pod, at time.Time, containers ...metricsv1beta1.ContainerMetrics) map[types.UID]sample {
	return map[types.UID]sample{pod.UID: readSample(pod, reported(at, containers...), at)}
}

func TestCountersOfANode(t *testing.T) {
	var c counters
	web, db := localPod("web"), localPod("db")
	both := sampleOf(web, noon, using("main", "500m", "1Mi"))
	maps.Copy(both, sampleOf(db, noon.Add(-5*time.Second), using("main", "1", "2Mi")))
	usages, node := c.record([]*corev1.Pod{db, web}, both)
	require.Len(t, usages, 2)
	assert.Equal(t, usage{name: "node", cores: 1.5, coreSeconds: 15, memoryBytes: 3 << 20, startTime: noon.Add(-10 * time.Second), until: noon}, node)

	later := noon.Add(20 * time.Second)
	usages, node = c.record([]*corev1.Pod{web}, sampleOf(web, later, using("main", "1", "1Mi")))
	require.Len(t, usages, 1)
	assert.InDelta(t, 25, usages[0].containers[0].coreSeconds, 1e-9)
	assert.InDelta(t, 35, node.coreSeconds, 1e-9, "the node's counter does not fall when a pod is deleted")
	assert.Equal(t, []counterKey{{"uid-web", "main"}}, slices.Collect(maps.Keys(c.values)), "the counter of a deleted pod is forgotten")

	usages, node = c.record([]*corev1.Pod{web}, nil)
	assert.Empty(t, usages, "a pod without metrics is left out")
	assert.True(t, node.until.IsZero())
	usages, _ = c.record([]*corev1.Pod{web}, sampleOf(web, later.Add(time.Second), using("main", "1", "1Mi")))
	assert.InDelta(t, 26, usages[0].containers[0].coreSeconds, 1e-9, "and its counter is kept")
}

// What a provider reports of a pod is what its local pod can have.
func TestReadSample(t *testing.T) {
	const window = 10 * time.Second
	hour := reported(noon, using("main", "1", "1Mi"))
	hour.Window.Duration = math.MaxInt64
	negative := reported(noon, using("main", "1", "1Mi"))
	negative.Window.Duration = -time.Hour
	one := func(at time.Time, window time.Duration) sample {
		return sample{at, window, map[string]usage{"main": {name: "main", cores: 1, memoryBytes: 1 << 20}}}
	}
	for name, tc := range map[string]struct {
		metrics *metricsv1beta1.PodMetrics
		want    sample
	}{
		"containers of every sort": {
			reported(noon, using("main", "1", "1Mi"), using("proxy", "2", "2Mi"), using("debug", "3", "3Mi")),
			sample{noon, window, map[string]usage{
				"proxy": {name: "proxy", cores: 2, memoryBytes: 2 << 20}, "main": {name: "main", cores: 1, memoryBytes: 1 << 20}, "debug": {name: "debug", cores: 3, memoryBytes: 3 << 20},
			}},
		},
		"containers that the local pod does not have": {reported(noon, using("invented", "1", "1Mi"), using("", "1", "1Mi"), using("main", "1", "1Mi")), one(noon, window)},
		"a container twice":                           {reported(noon, using("main", "1", "1Mi"), using("main", "2", "2Mi")), one(noon, window)},
		"more than any machine has": {
			reported(noon, using("main", "9223372036854775807", "9223372036854775807")),
			sample{noon, window, map[string]usage{"main": {name: "main", cores: maxCores, memoryBytes: maxMemory}}},
		},
		"a negative amount":               {reported(noon, using("main", "-1", "1Mi"), using("proxy", "1", "-1")), sample{noon, window, map[string]usage{}}},
		"an amount that is out of bounds": {reported(noon, using("main", "1e2000000000", "1Mi"), using("proxy", "1", "1e30000000")), sample{noon, window, map[string]usage{}}},
		"no amounts":                      {reported(noon, metricsv1beta1.ContainerMetrics{Name: "main"}), sample{noon, window, map[string]usage{"main": {name: "main"}}}},
		"a time in the future":            {reported(noon.Add(time.Hour), using("main", "1", "1Mi")), one(noon, window)},
		"a time that JSON does not have":  {reported(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), using("main", "1", "1Mi")), sample{}},
		"a time before 1970":              {reported(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), using("main", "1", "1Mi")), sample{}},
		"no time":                         {reported(time.Time{}, using("main", "1", "1Mi")), sample{}},
		"a window of centuries":           {hour, one(noon, time.Hour)},
		"a negative window":               {negative, one(noon, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, readSample(localPod("web"), tc.metrics, noon))
		})
	}
}

// Whatever a provider reports, only containers of local pods are counted, and no counter falls.
func TestCountersOfAHostileProvider(t *testing.T) {
	var c counters
	web := localPod("web")
	largest := []metricsv1beta1.ContainerMetrics{using("main", "1e18", "1e18"), using("proxy", "1e18", "1e18"), using("debug", "1e18", "1e18")}
	var scrapes [][]metricsv1beta1.ContainerMetrics
	for i := range 40 {
		all := slices.Clone(largest[:1+i%3])
		for _, name := range invented(int64(i), 100) {
			all = append(all, using(name, "1e18", "1e18"))
		}
		scrapes = append(scrapes, all, nil)
	}
	var pod, node usage
	for i, containers := range scrapes {
		at := noon.Add(time.Duration(i%7-3) * 24 * time.Hour) // to and fro
		samples := map[types.UID]sample{web.UID: readSample(web, reported(at, containers...), noon.Add(time.Duration(i)*time.Second))}
		usages, all := c.record([]*corev1.Pod{web}, samples)
		assert.LessOrEqual(t, len(c.values), 3)
		if containers == nil {
			assert.Empty(t, usages)
			continue
		}
		require.Len(t, usages, 1)
		require.LessOrEqual(t, len(usages[0].containers), 3)
		for _, now := range []struct{ before, after usage }{{pod, usages[0].total}, {node, all}} {
			assert.GreaterOrEqual(t, now.after.coreSeconds, now.before.coreSeconds)
			assert.GreaterOrEqual(t, *now.after.cpuStats().UsageCoreNanoSeconds, *now.before.cpuStats().UsageCoreNanoSeconds)
			assert.False(t, now.after.until.Before(now.before.until))
		}
		pod, node = usages[0].total, all
	}
}

func TestNano(t *testing.T) {
	for name, tc := range map[string]struct {
		amount float64
		want   uint64
	}{"none": {0, 0}, "some": {1.5, 1_500_000_000}, "more than there are nanoseconds": {1e30, math.MaxInt64 + 1}} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, nano(tc.amount)) })
	}
}

// namespaces has a pod in each of two namespaces, one that has ended, and one whose namespace is not offloaded.
type namespaces struct{}

func (namespaces) Pods() []*corev1.Pod {
	a, b := localPod("web"), localPod("web")
	a.UID, b.Namespace, b.UID = "a", "lab", "b"
	ended, other := localPod("ended"), localPod("web")
	ended.Status.Phase, other.Namespace = corev1.PodFailed, "other"
	return []*corev1.Pod{a, b, ended, other}
}

func (namespaces) Remote(namespace, _ string) (string, bool) {
	return namespace + "-rome", namespace != "other"
}

func TestMetricsOfNamespacesThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		failing  map[string]int
		want     []types.UID
		wantFail string
	}{
		"one namespace that fails does not hide the others": {map[string]int{"lab-rome": 403}, []types.UID{"a"}, ""},
		"all namespaces fail":                               {map[string]int{"lab-rome": 403, "shop-rome": 403}, nil, "listing the metrics of pods in namespace"},
		"the provider has no metrics API":                   {map[string]int{"lab-rome": 404, "shop-rome": 404}, nil, ""},
		"the provider's metrics API is down":                {map[string]int{"lab-rome": 503, "shop-rome": 503}, nil, "listing the metrics of pods in namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for namespace, code := range tc.failing {
					if r.URL.Path == "/apis/metrics.k8s.io/v1beta1/namespaces/"+namespace+"/pods" {
						w.WriteHeader(code)
						return
					}
				}
				w.Header().Set("Content-Type", "application/json")
				_, err := w.Write([]byte(`{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[` + podMetrics("web", "2020-11-21T07:00:00Z", "main") + "," + podMetrics("ended", "2020-11-21T07:00:00Z", "main") + "]}"))
				assert.NoError(t, err)
			}))
			defer server.Close()
			provider, err := NewProvider(providerOptions(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}))
			require.NoError(t, err)
			usages, _, err := (&remotePods{pods: namespaces{}, provider: provider}).gather(t.Context())
			if tc.wantFail != "" {
				require.ErrorContains(t, err, tc.wantFail)
				return
			}
			require.NoError(t, err)
			var got []types.UID
			for _, u := range usages {
				got = append(got, u.pod.UID)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}
