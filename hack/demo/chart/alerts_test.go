package chart

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// prometheusRule is what is used here of the Prometheus operator's kind.
type prometheusRule struct {
	Spec struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

var (
	alertLabel = regexp.MustCompile(`\$labels\.([a-z_]+)`)
	grouping   = regexp.MustCompile(`by \(([a-z_, ]+)\)`)
	// controllers are the values of the label controller that an expression selects.
	controllers    = regexp.MustCompile(`controller=~?"([a-z|-]+)"`)
	metricRow      = regexp.MustCompile("(?m)^\\| `(longshore_\\w+)` \\| \\w+ \\| ([^|]*) \\|")
	codeSpan       = regexp.MustCompile("`([^`]+)`")
	controllerName = regexp.MustCompile(`Named\("([a-z-]+)"\)`)
)

// foreignMetrics are those of controller-runtime, of the Go client of Prometheus, and of
// kube-state-metrics.
var foreignMetrics = []string{
	"controller_runtime_reconcile_errors_total", "process_resident_memory_bytes", "process_cpu_seconds_total",
	"kube_node_status_condition", "kube_node_spec_taint", "kube_deployment_status_replicas_available",
}

func TestMonitoringIsOffUnlessAskedFor(t *testing.T) {
	for _, object := range render(t, map[string]any{"clusterID": "rome"}) {
		assert.NotContains(t, []string{"PrometheusRule", "PodMonitor", "NetworkPolicy", "Certificate", "Issuer"}, object.GetKind())
		assert.NotEqual(t, "longshore-dashboard", object.GetName())
	}
}

// requireMetrics parses an expression: the metrics in it exist, and the controllers that it names.
func requireMetrics(t *testing.T, expr, where string) {
	t.Helper()
	parsed, err := metricsql.Parse(strings.ReplaceAll(expr, "$namespace", "longshore"))
	require.NoError(t, err, where)
	known := ownMetrics(t)
	labels := map[string]bool{"__name__": true, "le": true, "namespace": true, "pod": true, "liqo_io_virtual_node": true, "liqo_io_remote_cluster_id": true}
	found, foreign := 0, 0
	metricsql.VisitAll(parsed, func(node metricsql.Expr) {
		metric, ok := node.(*metricsql.MetricExpr)
		if !ok {
			return
		}
		for _, filters := range metric.LabelFilterss {
			for _, filter := range filters {
				if filter.Label != "__name__" {
					continue
				}
				found++
				if !strings.HasPrefix(filter.Value, "longshore_") {
					foreign++
					assert.Contains(t, foreignMetrics, filter.Value, where)
					continue
				}
				of, ok := known[strings.TrimSuffix(filter.Value, "_bucket")]
				assert.True(t, ok, "%s: the code has no metric %s", where, filter.Value)
				for _, label := range of {
					labels[label] = true
				}
			}
			for _, filter := range filters {
				assert.True(t, foreign > 0 || labels[filter.Label], "%s: the metric has no label %s", where, filter.Label)
			}
		}
	})
	for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ", ") {
			assert.True(t, foreign > 0 || labels[label], "%s: no metric has the label %s", where, label)
		}
	}
	assert.NotZero(t, found, "%s has no metric", where)
	for _, match := range controllers.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(match[1], "|") {
			assert.Contains(t, controllerNames(t), name, where)
		}
	}
}

// ownMetrics returns the labels of each metric, from the reference that is generated from the code.
func ownMetrics(t *testing.T) map[string][]string {
	t.Helper()
	metrics := map[string][]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(readSource(t, "docs/reference/metrics.md")), -1) {
		metrics[row[1]] = nil
		for _, label := range codeSpan.FindAllStringSubmatch(row[2], -1) {
			metrics[row[1]] = append(metrics[row[1]], label[1])
		}
	}
	require.NotEmpty(t, metrics)
	return metrics
}

// controllerNames are the names that the code gives to controllers.
func controllerNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, depth := range []string{"*", "*/*", "*/*/*"} {
		files, err := filepath.Glob(filepath.Join(repository, "host", depth, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			relative, err := filepath.Rel(repository, file)
			require.NoError(t, err)
			for _, match := range controllerName.FindAllStringSubmatch(string(readSource(t, relative)), -1) {
				names = append(names, match[1])
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}

// Each rule is PromQL, over metrics that there are, and its texts name labels that the
// expression keeps.
func TestAlertsAreRules(t *testing.T) {
	objects := render(t, map[string]any{"clusterID": "rome", "alerts": map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}}})
	rules := map[string]int{}
	for _, object := range objects {
		if object.GetKind() != "PrometheusRule" {
			continue
		}
		assert.Equal(t, "prometheus", object.GetLabels()["release"])
		var rule prometheusRule
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &rule))
		for _, group := range rule.Spec.Groups {
			for _, r := range group.Rules {
				rules[object.GetName()]++
				requireMetrics(t, r.Expr, r.Alert)
				kept := map[string]bool{}
				for _, by := range grouping.FindAllStringSubmatch(r.Expr, -1) {
					for label := range strings.SplitSeq(by[1], ", ") {
						kept[label] = true
					}
				}
				assert.Regexp(t, `^\d+m$`, r.For, r.Alert)
				assert.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
				for _, text := range []string{r.Annotations["summary"], r.Annotations["description"]} {
					assert.NotEmpty(t, text, r.Alert)
					for _, label := range alertLabel.FindAllStringSubmatch(text, -1) {
						assert.True(t, kept[label[1]], "%s names label %s, which its expression drops", r.Alert, label[1])
					}
				}
				assert.True(t, strings.HasSuffix(r.Annotations["summary"], "."), "%s: the summary is a sentence", r.Alert)
			}
		}
	}
	assert.Equal(t, map[string]int{
		"longshore-policies": 8, "longshore-node": 3, "longshore-link": 1, "longshore-replication": 4, "longshore-certificates": 1, "longshore-quota": 2,
	}, rules)
}

// The dashboard is one that Grafana imports, and each query is PromQL over metrics that there are.
func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	objects := render(t, map[string]any{"clusterID": "rome", "dashboard": map[string]any{"enabled": true, "annotations": map[string]any{"grafana_folder": "Longshore"}}})
	configMap := find(t, objects, "ConfigMap", "longshore-dashboard")
	assert.Equal(t, "1", configMap.GetLabels()["grafana_dashboard"])
	assert.Equal(t, "Longshore", configMap.GetAnnotations()["grafana_folder"])
	content, _, err := unstructured.NestedString(configMap.Object, "data", "longshore.json")
	require.NoError(t, err)
	var dashboard struct {
		UID    string `json:"uid"`
		Panels []struct {
			ID          int    `json:"id"`
			Title       string `json:"title"`
			Type        string `json:"type"`
			GridPos     struct{ X, Y, W, H int }
			FieldConfig struct {
				Defaults struct {
					NoValue string `json:"noValue"`
				} `json:"defaults"`
			} `json:"fieldConfig"`
			Targets []struct {
				Expr         string `json:"expr"`
				LegendFormat string `json:"legendFormat"`
			} `json:"targets"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal([]byte(content), &dashboard))
	assert.Equal(t, "longshore", dashboard.UID)
	legendLabel, compared := regexp.MustCompile(`\{\{(\w+)\}\}`), regexp.MustCompile(` >=? 0$`)
	selectors := regexp.MustCompile(`(?:longshore|process|controller_runtime)_\w+(?:\{[^}]*\})?`)
	taken := map[string]string{}
	for _, panel := range dashboard.Panels {
		assert.Equal(t, panel.Type == "row", len(panel.Targets) == 0, panel.Title)
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				cell := fmt.Sprint(panel.GridPos.X+x, "/", panel.GridPos.Y+y)
				assert.Empty(t, taken[cell], "%s overlaps", panel.Title)
				taken[cell] = panel.Title
			}
		}
		for _, target := range panel.Targets {
			requireMetrics(t, target.Expr, panel.Title)
			for _, selected := range selectors.FindAllString(target.Expr, -1) {
				assert.Contains(t, selected, `namespace=~"$namespace"`, "%s: the variable of the dashboard selects nothing", panel.Title)
			}
			if compared.MatchString(target.Expr) {
				assert.NotEmpty(t, panel.FieldConfig.Defaults.NoValue, "%s is empty while nothing is wrong, and does not say so", panel.Title)
			}
			for _, label := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Regexp(t, `by \([^)]*\b`+label[1]+`\b`, target.Expr, panel.Title)
			}
		}
	}
}
