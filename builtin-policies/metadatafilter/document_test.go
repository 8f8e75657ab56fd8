package metadatafilter_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"

	"github.com/longshore-dev/longshore/builtin-policies/metadatafilter"
)

// The settings in docs/howto/filter-labels.md have the documented effects and errors.
func TestTheDocumentIsRight(t *testing.T) {
	text, err := os.ReadFile("../../docs/howto/filter-labels.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "```yaml filter.yaml\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	var policy policyv1alpha1.OffloadingPolicy
	require.NoError(t, yaml.UnmarshalStrict([]byte(block), &policy))
	settings := policy.Spec.Settings.Raw
	require.NoError(t, metadatafilter.CheckSettings(settings))

	labels, annotations := filtered(t, facts("v1", "Service", "app", "app.kubernetes.io/name", "team", "ci.example.com/run", "a-checksum"), string(settings))
	assert.Equal(t, "app=app app.kubernetes.io/name=app.kubernetes.io/name", line(labels))
	assert.Equal(t, "app=app app.kubernetes.io/name=app.kubernetes.io/name team=team", line(annotations))
	labels, _ = filtered(t, facts("v1", "ConfigMap", "example.com/team"), string(settings))
	assert.Equal(t, "provider.example/tenant=example.com/team", line(labels))

	broken := strings.Replace(string(settings), `"keep":["app"`, `"keep":["app kubernetes"`, 1)
	require.True(t, json.Valid([]byte(broken)))
	require.NotEqual(t, string(settings), broken)
	message := metadatafilter.CheckSettings([]byte(broken)).Error()
	assert.Contains(t, string(text), "\n"+message+"\n")
}

// The settings of the chart drop the keys by which tools own objects, and no label by which pods are selected.
func TestTheSettingsOfTheChart(t *testing.T) {
	text, err := os.ReadFile("../../charts/longshore/values.yaml")
	require.NoError(t, err)
	var values struct {
		Policies struct {
			MetadataFilter struct{ Settings map[string]any }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &values))
	settings, err := json.Marshal(values.Policies.MetadataFilter.Settings)
	require.NoError(t, err)
	require.NoError(t, metadatafilter.CheckSettings(settings))
	kept := []string{"app", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "kubectl.kubernetes.io/restartedAt", "nginx.ingress.kubernetes.io/rewrite-target", "pod-template-hash"}
	owners := []string{"argocd.argoproj.io/instance", "controller.cert-manager.io/fao", "helm.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace"}
	annotationsOnly := []string{
		"argocd.argoproj.io/tracking-id", "cert-manager.io/cluster-issuer", "acme.cert-manager.io/http01-edit-in-place",
		"external-dns.alpha.kubernetes.io/hostname", "kubectl.kubernetes.io/last-applied-configuration", "meta.helm.sh/release-name",
	}
	for kind, dropsLabels := range map[string]bool{"ConfigMap": true, "Secret": true, "Service": true, "EndpointSlice": true, "Ingress": true, "Pod": false} {
		labels, annotations := filtered(t, facts("v1", kind, slices.Concat(kept, owners, annotationsOnly)...), string(settings))
		for _, key := range kept {
			assert.Contains(t, labels, key, kind)
			assert.Contains(t, annotations, key, kind)
		}
		for _, key := range owners {
			assert.NotContains(t, annotations, key, kind)
			assert.Equal(t, !dropsLabels, slices.Contains(slices.Collect(maps.Keys(labels)), key), "%s of a %s", key, kind)
		}
		for _, key := range annotationsOnly {
			assert.NotContains(t, annotations, key, kind)
		}
	}
}
