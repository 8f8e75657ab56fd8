package metadatafilter_test

import (
	"encoding/json"
	"os"
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
