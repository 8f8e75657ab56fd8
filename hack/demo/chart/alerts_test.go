package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	metricName = regexp.MustCompile(`longshore_policy_[a-z_]+`)
	alertLabel = regexp.MustCompile(`\$labels\.([a-z_]+)`)
	grouping   = regexp.MustCompile(`by \(([a-z_, ]+)\)`)
)

func TestAlertsAreOffUnlessAskedFor(t *testing.T) {
	for _, object := range render(t, map[string]any{"clusterID": "rome"}) {
		assert.NotEqual(t, "PrometheusRule", object.GetKind())
	}
}

// Each rule is PromQL, over metrics that there are, and its texts name labels that the
// expression keeps.
func TestAlertsAreRules(t *testing.T) {
	objects := render(t, map[string]any{"clusterID": "rome", "alerts": map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}}})
	object := find(t, objects, "PrometheusRule", "longshore-policies")
	assert.Equal(t, "prometheus", object.GetLabels()["release"])
	var rule prometheusRule
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &rule))
	known := policyMetrics(t)
	rules := 0
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			rules++
			_, err := metricsql.Parse(r.Expr)
			require.NoError(t, err, r.Alert)
			names := metricName.FindAllString(r.Expr, -1)
			require.NotEmpty(t, names, r.Alert)
			for _, name := range names {
				assert.Contains(t, known, "`"+strings.TrimSuffix(name, "_bucket")+"`", r.Alert)
			}
			kept := map[string]bool{}
			for _, by := range grouping.FindAllStringSubmatch(r.Expr, -1) {
				for label := range strings.SplitSeq(by[1], ", ") {
					kept[label] = true
				}
			}
			assert.Regexp(t, `^\d+m$`, r.For, r.Alert)
			assert.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
			for _, text := range []string{r.Annotations["summary"], r.Annotations["description"]} {
				assert.True(t, strings.HasSuffix(text, "."), "%s: %q is a sentence", r.Alert, text)
				for _, label := range alertLabel.FindAllStringSubmatch(text, -1) {
					assert.True(t, kept[label[1]], "%s names label %s, which its expression drops", r.Alert, label[1])
				}
			}
		}
	}
	assert.Equal(t, 8, rules)
}

// policyMetrics returns the reference of the metrics, which is generated from the code.
func policyMetrics(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "metrics.md"))
	require.NoError(t, err)
	return string(page)
}
