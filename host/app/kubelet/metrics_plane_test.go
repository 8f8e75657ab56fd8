package kubelet_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
)

// metricsAPI is an aggregated API with the metrics of pods, as metrics-server serves it.
type metricsAPI struct {
	at   time.Time
	pods map[string]map[string]string // by "namespace/name", the labels
}

// ServeHTTP implements http.Handler.
func (m *metricsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	version := metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1"}
	reply := func(kind string, object any) {
		raw, _ := json.Marshal(object)
		var content map[string]any
		_ = json.Unmarshal(raw, &content)
		content["kind"], content["apiVersion"] = kind, version.APIVersion
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(content)
	}
	namespace, isList := strings.CutPrefix(r.URL.Path, "/apis/metrics.k8s.io/v1beta1/namespaces/")
	namespace, isPods := strings.CutSuffix(namespace, "/pods")
	switch {
	case isList && isPods:
		selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		list := metricsv1beta1.PodMetricsList{Items: []metricsv1beta1.PodMetrics{}}
		for key, podLabels := range m.pods {
			name, found := strings.CutPrefix(key, namespace+"/")
			if found && selector.Matches(labels.Set(podLabels)) {
				list.Items = append(list.Items, metricsv1beta1.PodMetrics{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: podLabels},
					Timestamp:  metav1.NewTime(m.at), Window: metav1.Duration{Duration: 15 * time.Second},
					Containers: []metricsv1beta1.ContainerMetrics{{Name: "web", Usage: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
					}}},
				})
			}
		}
		reply("PodMetricsList", list)
	case r.URL.Path == "/apis/metrics.k8s.io/v1beta1":
		reply("APIResourceList", metav1.APIResourceList{GroupVersion: version.APIVersion, APIResources: []metav1.APIResource{
			{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: []string{"get", "list"}},
		}})
	default:
		http.NotFound(w, r)
	}
}

// serveMetrics registers an aggregated API in the provider.
func (r *rig) serveMetrics(api *metricsAPI) {
	r.t.Helper()
	server := httptest.NewTLSServer(api)
	r.t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	require.NoError(r.t, err)
	port, err := strconv.ParseInt(address.Port(), 10, 32)
	require.NoError(r.t, err)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "metrics-server"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: address.Hostname(), Ports: []corev1.ServicePort{{Port: int32(port)}},
		},
	}
	registration := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1beta1.metrics.k8s.io"},
		"spec": map[string]any{
			"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "metrics-server", "port": port},
		},
	}}
	r.create(r.milan, service, registration)
	planetest.Until(r.t, func(t planetest.T) bool {
		require.NoError(t, r.milan.Get(t.Context(), client.ObjectKeyFromObject(registration), registration))
		conditions, _, err := unstructured.NestedSlice(registration.Object, "status", "conditions")
		require.NoError(t, err)
		require.NotEmpty(t, conditions)
		condition, _ := conditions[0].(map[string]any)
		return assert.Equal(t, "True", condition["status"], "%v", condition["message"])
	}, soon, tick, "the provider serves metrics.k8s.io")
}

// withholdMetrics replaces the rights of the consumer in the provider by those without the metrics of
// pods. Binding rome to the role of the chart gives them back.
func (r *rig) withholdMetrics() {
	r.t.Helper()
	role := &rbacv1.ClusterRole{}
	require.NoError(r.t, r.milan.Get(r.t.Context(), client.ObjectKey{Name: "liqo-virtual-kubelet-remote"}, role))
	withheld := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "without-metrics"}}
	for _, rule := range role.Rules {
		isMetrics := func(group string) bool { return group == metricsv1beta1.GroupName }
		rule.APIGroups = slices.DeleteFunc(rule.APIGroups, isMetrics)
		if len(rule.APIGroups) > 0 {
			withheld.Rules = append(withheld.Rules, rule)
		}
	}
	bound := binding("rome")
	bound.Name, bound.RoleRef.Name = withheld.Name, withheld.Name
	r.create(r.milan, withheld, bound)
	require.NoError(r.t, r.milan.Delete(r.t.Context(), binding("rome")))
}

// The kubelet API has the statistics of the remote pods under the names of the local ones, and
// only those of this virtual node.
func TestMetricsOfRemotePods(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runManager()
	r.create(r.rome, virtualNode(), r.secret(r.kubeconfig))
	r.mapNamespace()
	of := func(node string) map[string]string {
		return map[string]string{"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan", "offloading.liqo.io/nodename": node}
	}
	at := time.Now().Truncate(time.Second)
	r.serveMetrics(&metricsAPI{at: at, pods: map[string]map[string]string{
		"shop-rome/web":      of(nodeName),
		"shop-rome/orphan":   of(nodeName),
		"shop-rome/neighbor": of("milan-2"),
		"shop-rome/own":      nil,
		"default/web":        of(nodeName),
	}})
	r.withholdMetrics()
	r.runKubelet(r.options())
	r.create(r.rome, webPod())
	certificate, key, err := r.consumer.IssueClientCert("metrics-server", nil)
	require.NoError(t, err)
	scraper := &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: certificate, KeyData: key}}
	planetest.Until(t, func(t planetest.T) bool {
		return r.milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: "web"}, &corev1.Pod{}) == nil
	}, soon, tick, "the remote pod exists")

	code, _ := r.get(t, scraper, "/metrics/resource")
	assert.Equal(t, http.StatusForbidden, code, "the right to get nodes/metrics is required")
	r.create(r.rome,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "scraper"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes/metrics", "nodes/stats"}, Verbs: []string{"get"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scraper"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "metrics-server"}},
		})
	var body string
	planetest.Until(t, func(t planetest.T) bool {
		code, body = r.get(t, scraper, "/stats/summary")
		return code == http.StatusInternalServerError
	}, soon, tick, "the consumer's identity may not read metrics in the provider")
	assert.Contains(t, body, "listing the metrics of pods")

	r.create(r.milan, binding("rome"))
	planetest.Until(t, func(t planetest.T) bool {
		code, body = r.get(t, scraper, "/stats/summary")
		return code == http.StatusOK
	}, soon, tick, "the metrics can be read")
	var summary statsv1alpha1.Summary
	require.NoError(t, json.Unmarshal([]byte(body), &summary))
	assert.Equal(t, nodeName, summary.Node.NodeName)
	require.Len(t, summary.Pods, 1, body)
	assert.Equal(t, "shop", summary.Pods[0].PodRef.Namespace)
	assert.Equal(t, "web", summary.Pods[0].PodRef.Name)
	assert.EqualValues(t, 250_000_000, *summary.Pods[0].Containers[0].CPU.UsageNanoCores)
	assert.EqualValues(t, 64<<20, *summary.Node.Memory.WorkingSetBytes)

	planetest.Until(t, func(t planetest.T) bool {
		code, body = r.get(t, scraper, "/metrics/resource")
		return code == http.StatusOK
	}, soon, tick, "the denial is not cached any more")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	cpu := families["container_cpu_usage_seconds_total"].Metric
	require.Len(t, cpu, 1)
	assert.InDelta(t, 0.25*15, cpu[0].GetCounter().GetValue(), 1e-9)
	assert.Equal(t, at.UnixMilli(), cpu[0].GetTimestampMs())
	assert.InDelta(t, at.Add(-15*time.Second).Unix(), families["container_start_time_seconds"].Metric[0].GetGauge().GetValue(), 1e-3)
	assert.InDelta(t, 64<<20, families["node_memory_working_set_bytes"].Metric[0].GetGauge().GetValue(), 1e-9)
}
