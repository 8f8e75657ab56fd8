package kubelet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// serveMetrics runs the kubelet API for a provider that answers with these items.
func serveMetrics(t *testing.T, contentType string, items func() string) *rest.Config {
	t.Helper()
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprintf(w, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[%s]}`, items())
	}))
	t.Cleanup(provider.Close)
	types := runtime.NewScheme()
	require.NoError(t, metricsv1beta1.AddToScheme(types))
	limits := remotecluster.Limits{Values: remotecluster.AnyNumber, Types: types}
	config, err := remotecluster.Guard(&rest.Config{Host: provider.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, limits)
	require.NoError(t, err)
	return serveFor(t, config)
}

// podMetrics is an item with these containers, each of which uses 250m and 64Mi.
func podMetrics(pod, at string, containers ...string) string {
	var all []string
	for _, name := range containers {
		all = append(all, fmt.Sprintf(`{"name":%q,"usage":{"cpu":"250m","memory":"64Mi"}}`, name))
	}
	return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"invented":"label"}},"timestamp":%q,"window":"15s","containers":[%s]}`, pod, at, strings.Join(all, ","))
}

// invented returns names that no pod has, others each time.
func invented(scrape int64, count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("invented-%d-%d", scrape, i))
	}
	return names
}

// metrics-server, which the whole cluster shares, reads of a hostile provider one series for each container that
// the local pod has.
func TestMetricsOfAHostileProvider(t *testing.T) {
	var scrapes atomic.Int64
	config := serveMetrics(t, "application/json", func() string {
		scrape := scrapes.Add(1)
		const at = "2020-11-21T07:00:00Z"
		web := podMetrics("web", at, append(append(invented(scrape, 50), "main", "main"), invented(scrape+1, 50)...)...)
		return strings.Join([]string{web, podMetrics("web", "2020-11-21T08:00:00Z", append(invented(scrape, 50), "main")...), podMetrics("invented", at, "main")}, ",")
	})
	var bodies []string
	for range 3 {
		code, body := get(t, config, "/metrics/resource")
		require.Equal(t, http.StatusOK, code, body)
		assert.NotContains(t, body, "invented")
		bodies = append(bodies, body)
	}
	assert.Equal(t, []string{bodies[0], bodies[0], bodies[0]}, bodies)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(bodies[0]))
	require.NoError(t, err)
	for name, family := range families {
		assert.Len(t, family.GetMetric(), 1, name)
	}
	assert.InDelta(t, 0.25*15, families["pod_cpu_usage_seconds_total"].GetMetric()[0].GetCounter().GetValue(), 1e-9)

	code, body := get(t, config, "/stats/summary")
	require.Equal(t, http.StatusOK, code, body)
	var summary statsv1alpha1.Summary
	require.NoError(t, json.Unmarshal([]byte(body), &summary))
	require.Len(t, summary.Pods, 1)
	require.Len(t, summary.Pods[0].Containers, 1)
	assert.EqualValues(t, 64<<20, *summary.Node.Memory.WorkingSetBytes)
}

// An answer is as large as the local pods of the namespace make one.
func TestAnswersWithMetricsAreLimited(t *testing.T) {
	const at = "2020-11-21T07:00:00Z"
	for name, tc := range map[string]struct {
		contentType, items, want string
	}{
		"containers":              {"application/json", podMetrics("web", at, invented(0, 20_000)...), "the answer has more than"},
		"empty items":             {"application/json", strings.Repeat("{},", 20_000) + "{}", "the answer has more than"},
		"a long text":             {"application/json", podMetrics(strings.Repeat("x", 2<<20), at), "the answer is larger than"},
		"a long amount":           {"application/json", strings.Replace(podMetrics("web", at, "main"), "250m", "1e-2000000000", 1), "has more than"},
		"not asked for":           {"application/vnd.kubernetes.protobuf", podMetrics("web", at, "main"), "which was not asked for"},
		"as many as there may be": {"application/json", podMetrics("web", at, "main") + strings.Repeat(","+podMetrics("orphan", at, "main"), 500), ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := serveMetrics(t, tc.contentType, func() string { return tc.items })
			code, body := get(t, config, "/metrics/resource")
			if tc.want == "" {
				assert.Equal(t, http.StatusOK, code, body)
				return
			}
			assert.Equal(t, http.StatusInternalServerError, code)
			assert.Contains(t, body, tc.want)
		})
	}
}

// The provider writes the text of an error, which is logged and sent to who asked.
func TestErrorsOfMetricsAreShort(t *testing.T) {
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":%q}`, strings.Repeat("x", 100<<10))
	}))
	t.Cleanup(provider.Close)
	config := serveFor(t, &rest.Config{Host: provider.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	for _, path := range []string{"/metrics/resource", "/stats/summary"} {
		_, body := get(t, config, path)
		assert.Contains(t, body, "xxx", path)
		assert.Less(t, len(body), 2<<10, path)
	}
}
