package kubelet

import (
	"maps"
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
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}}
}

func sampleOf(at time.Time, cpu, memory string) *metricsv1beta1.PodMetrics {
	return &metricsv1beta1.PodMetrics{
		Timestamp: metav1.NewTime(at), Window: metav1.Duration{Duration: 10 * time.Second},
		Containers: []metricsv1beta1.ContainerMetrics{{Name: "main", Usage: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}},
	}
}

func TestCountersOfANode(t *testing.T) {
	var c counters
	web, db := localPod("web"), localPod("db")
	both := []*corev1.Pod{db, web}
	usages, node := c.record(both, map[types.UID]*metricsv1beta1.PodMetrics{
		"uid-web": sampleOf(noon, "500m", "1Mi"), "uid-db": sampleOf(noon.Add(-5*time.Second), "1", "2Mi"),
	})
	require.Len(t, usages, 2)
	assert.Equal(t, usage{name: "node", cores: 1.5, coreSeconds: 15, memoryBytes: 3 << 20, startTime: noon.Add(-10 * time.Second), until: noon}, node)

	later := noon.Add(20 * time.Second)
	usages, node = c.record([]*corev1.Pod{web}, map[types.UID]*metricsv1beta1.PodMetrics{"uid-web": sampleOf(later, "1", "1Mi")})
	require.Len(t, usages, 1)
	assert.InDelta(t, 25, usages[0].containers[0].coreSeconds, 1e-9)
	assert.InDelta(t, 35, node.coreSeconds, 1e-9, "the node's counter does not fall when a pod is deleted")
	assert.Equal(t, []counterKey{{}, {"uid-web", "main"}}, slices.SortedFunc(maps.Keys(c.values), func(a, b counterKey) int {
		return len(a.pod) - len(b.pod)
	}), "the counter of a deleted pod is forgotten")

	usages, node = c.record([]*corev1.Pod{web}, nil)
	assert.Empty(t, usages, "a pod without metrics is left out")
	assert.True(t, node.until.IsZero())
	usages, _ = c.record([]*corev1.Pod{web}, map[types.UID]*metricsv1beta1.PodMetrics{"uid-web": sampleOf(later.Add(time.Second), "1", "1Mi")})
	assert.InDelta(t, 26, usages[0].containers[0].coreSeconds, 1e-9, "and its counter is kept")
}

// namespaces has a pod in each of two namespaces.
type namespaces struct{}

func (namespaces) Pods() []*corev1.Pod {
	a, b := localPod("web"), localPod("web")
	a.UID, b.Namespace, b.UID = "a", "lab", "b"
	return []*corev1.Pod{a, b}
}

func (namespaces) Remote(namespace, _ string) (string, bool) { return namespace + "-rome", true }

func TestMetricsOfNamespacesThatFail(t *testing.T) {
	for name, tc := range map[string]struct {
		failing  map[string]int
		want     []types.UID
		wantFail string
	}{
		"one namespace that fails does not hide the others": {map[string]int{"lab-rome": 403}, []types.UID{"a"}, ""},
		"all namespaces fail":                               {map[string]int{"lab-rome": 403, "shop-rome": 403}, nil, "listing the metrics of pods in namespace"},
		"the provider has no metrics API":                   {map[string]int{"lab-rome": 404, "shop-rome": 404}, nil, "can install metrics-server"},
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
				_, err := w.Write([]byte(`{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[{"metadata":{"name":"web"},"timestamp":"2026-11-21T07:00:00Z","window":"15s"}]}`))
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
