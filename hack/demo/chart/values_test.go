package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	repository    = "../../.."
	valuesPage    = "docs/reference/values.md"
	referencePage = "docs/howto/move-from-the-reference.md"
)

// valueSchema is what the pages need of the schema of the values.
type valueSchema struct {
	Description          string                  `json:"description"`
	Type                 any                     `json:"type"`
	Enum                 []string                `json:"enum"`
	Const                string                  `json:"const"`
	Properties           map[string]*valueSchema `json:"properties"`
	Required             []string                `json:"required"`
	AdditionalProperties any                     `json:"additionalProperties"`
}

// value is a row of the reference of the values.
type value struct{ name, kind, preset, description string }

func readSource(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(name)))
	require.NoError(t, err)
	return raw
}

func readSchema(t *testing.T) *valueSchema {
	t.Helper()
	schema := &valueSchema{}
	require.NoError(t, json.Unmarshal(readSource(t, "charts/longshore/values.schema.json"), schema))
	return schema
}

// readValues returns the keys of values.yaml: groups of keys without a kind, and their leaves.
func readValues(t *testing.T) []value {
	t.Helper()
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal(readSource(t, "charts/longshore/values.yaml"), &document))
	return rows(t, "", document.Content[0], readSchema(t))
}

func rows(t *testing.T, prefix string, mapping *yaml.Node, schema *valueSchema) []value {
	t.Helper()
	var found []value
	for i := 0; i < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		child := schema.Properties[key.Value]
		require.NotNil(t, child, "the schema has no key %s%s", prefix, key.Value)
		row := value{name: prefix + key.Value, description: comment(key.HeadComment)}
		if row.description == "" {
			row.description = child.Description
		}
		if node.Kind == yaml.MappingNode && len(child.Properties) > 0 && len(node.Content) > 0 && node.Style != yaml.FlowStyle {
			found = append(append(found, row), rows(t, row.name+".", node, child)...)
			continue
		}
		row.kind, row.preset = kindOf(child), presetOf(t, node)
		found = append(found, row)
	}
	return found
}

// comment returns the text of a comment: a blank line in it ends one that is about something else.
func comment(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	var words []string
	for line := range strings.SplitSeq(paragraphs[len(paragraphs)-1], "\n") {
		words = append(words, strings.Fields(strings.TrimPrefix(line, "#"))...)
	}
	return strings.Join(words, " ")
}

func kindOf(schema *valueSchema) string {
	if len(schema.Enum) > 0 {
		return "`" + strings.Join(schema.Enum, "`, `") + "`"
	}
	if kinds, ok := schema.Type.([]any); ok {
		names := make([]string, 0, len(kinds))
		for _, kind := range kinds {
			names = append(names, fmt.Sprint(kind))
		}
		return strings.Join(names, " or ")
	}
	return fmt.Sprint(schema.Type)
}

func presetOf(t *testing.T, node *yaml.Node) string {
	t.Helper()
	var v any
	require.NoError(t, node.Decode(&v))
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// page returns the reference of the values.
func page(values []value) string {
	var out strings.Builder
	out.WriteString(`# Values of the chart

Generated from values.yaml and values.schema.json of the chart (` + "`go test -C hack/demo ./chart -short -update`" + `). DO NOT EDIT.

Set them with ` + "`--set`" + ` or in a file for ` + "`--values`" + `. A key that is not listed is refused, and so is ` + "`null`" + ` for one that is. [Move from the reference](../howto/move-from-the-reference.md) maps the values of the reference chart.

`)
	table := func(rows []value) {
		if len(rows) == 0 {
			return
		}
		out.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
		for _, row := range rows {
			preset := ""
			if row.kind != "" {
				preset = "`" + strings.ReplaceAll(row.preset, "|", `\|`) + "`"
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", row.name, strings.ReplaceAll(row.kind, "|", `\|`), preset, strings.ReplaceAll(row.description, "|", `\|`))
		}
		out.WriteString("\n")
	}
	var top []value
	for _, row := range values {
		if !strings.Contains(row.name, ".") && row.kind != "" {
			top = append(top, row)
		}
	}
	out.WriteString("## General\n\n")
	table(top)
	for i, row := range values {
		if strings.Contains(row.name, ".") || row.kind != "" {
			continue
		}
		fmt.Fprintf(&out, "## %s\n\n", row.name)
		if row.description != "" {
			out.WriteString(row.description + "\n\n")
		}
		end := slices.IndexFunc(values[i+1:], func(v value) bool { return !strings.Contains(v.name, ".") })
		if end < 0 {
			end = len(values) - i - 1
		}
		table(values[i+1 : i+1+end])
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func TestTheReferenceOfTheValuesIsCurrent(t *testing.T) {
	values := readValues(t)
	for _, row := range values {
		assert.True(t, row.kind == "" || row.description != "", "%s needs a comment in values.yaml or a description in the schema", row.name)
	}
	got := page(values)
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join(repository, valuesPage), []byte(got), 0o644))
	}
	assert.Equal(t, string(readSource(t, valuesPage)), got, "if the change is meant: go test -C hack/demo ./chart -short -update")
}

// Each key that the schema describes has a default, which is where users look for keys.
func TestEveryKeyOfTheSchemaIsInTheValues(t *testing.T) {
	names := map[string]bool{}
	for _, row := range readValues(t) {
		names[row.name] = true
	}
	optional := regexp.MustCompile(`^(global|policies\.\w+\.\w+|reflection\.reflectors\.\w+(\.type)?|reflection\.[a-z]+(\.(type|workers))?)$`)
	var walk func(prefix string, schema *valueSchema)
	walk = func(prefix string, schema *valueSchema) {
		for key, child := range schema.Properties {
			name := prefix + key
			if child.Const == "" && !optional.MatchString(name) && !hasParent(names, name) {
				assert.True(t, names[name], "values.yaml has no %s", name)
			}
			walk(name+".", child)
		}
	}
	walk("", readSchema(t))
}

// hasParent reports whether values.yaml has the key as a part of another's flow mapping.
func hasParent(names map[string]bool, name string) bool {
	for at := strings.LastIndex(name, "."); at > 0; at = strings.LastIndex(name[:at], ".") {
		if names[name[:at]] && !slices.ContainsFunc(sorted(names), func(other string) bool { return strings.HasPrefix(other, name[:at]+".") }) {
			return true
		}
	}
	return false
}

func sorted(names map[string]bool) []string {
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

var referenceRow = regexp.MustCompile("(?m)^\\| `([^`]+)`[^|]* \\| (`([^`]+)`|–) \\| ([^|]*)\\|$")

// referenceKeys are the keys that the reference's chart documents for its users.
var referenceKeys = strings.Fields(`
discovery.config.clusterID discovery.config.clusterLabels
apiServer.address apiServer.ca apiServer.trustedCA
authentication.enabled authentication.tlsCompatibilityMode authentication.defaultResourceSliceClassEnabled authentication.awsConfig
offloading.enabled offloading.createNode offloading.disableNetworkCheck offloading.defaultNodeResources
offloading.reflection.pod offloading.reflection.service offloading.reflection.endpointslice offloading.reflection.ingress
offloading.reflection.configmap offloading.reflection.secret offloading.reflection.serviceaccount
offloading.reflection.persistentvolumeclaim offloading.reflection.event
offloading.reflection.skip.labels offloading.reflection.skip.annotations
offloading.reflection.ingress.ingressClasses offloading.reflection.service.loadBalancerClasses
offloading.runtimeClass.name offloading.runtimeClass.handler offloading.runtimeClass.nodeSelector offloading.runtimeClass.tolerations
controllerManager.replicas controllerManager.config.enableResourceEnforcement
controllerManager.config.defaultLimitsEnforcement controllerManager.config.enableNodeFailureController
crdReplicator
networking.enabled networking.reflectIPs networking.genevePort networking.denyDirectConnections
networking.apiServerAccessThroughEndpointSlices networking.gatewayTemplates networking.gateway networking.fabric
networking.serverResources networking.clientResources
ipam.podCIDRs ipam.serviceCIDR ipam.externalCIDR ipam.internalCIDR ipam.reservedSubnets ipam.pools ipam.internal ipam.external
storage.enabled storage.virtualStorageClassName storage.realStorageClassName storage.storageNamespace
virtualKubelet.replicas virtualKubelet.extra.args virtualKubelet.virtualNode.extra.labels virtualKubelet.metrics.port
webhook.replicas webhook.port webhook.failurePolicy webhook.patch
proxy metricAgent.enabled metrics.enabled metrics.prometheusOperator.enabled telemetry
common.nodeSelector common.tolerations common.affinity common.extraArgs common.globalLabels common.globalAnnotations
requirements.kernel.enabled openshiftConfig imagePullSecrets pullPolicy tag nameOverride fullnameOverride liqo-crds.crdUpgrade.enabled
`)

func TestEveryKeyOfTheReferenceHasACounterpartOrAReason(t *testing.T) {
	known := map[string]bool{}
	for _, row := range readValues(t) {
		known[row.name] = true
	}
	mapped := map[string]string{}
	for _, row := range referenceRow.FindAllStringSubmatch(string(readSource(t, referencePage)), -1) {
		key, counterpart, reason := row[1], row[3], strings.TrimSpace(row[4])
		require.NotContains(t, mapped, key)
		mapped[key] = counterpart
		if counterpart == "" {
			assert.NotEmpty(t, reason, "%s has neither a counterpart nor a reason", key)
			continue
		}
		assert.True(t, known[counterpart], "%s: values.yaml has no %s", key, counterpart)
	}
	for _, key := range referenceKeys {
		assert.Contains(t, mapped, key, "%s has no row in %s", key, referencePage)
	}
	for key, counterpart := range mapped {
		if key == counterpart || key == "reflection" {
			continue
		}
		_, err := Render(nested(key), Options{})
		assert.ErrorContains(t, err, "The chart has no key", key)
	}
}

func TestAKeyOfAnEarlierChartIsRefusedWithAReason(t *testing.T) {
	_, err := Render(nested("policies.cacheDir"), Options{})
	require.ErrorContains(t, err, "The chart has no key policies.cacheDir: compiled policies are machine code")
}

// nested returns values with the key, besides the cluster ID.
func nested(key string) map[string]any {
	parts := strings.Split(key, ".")
	var inner any = "x"
	for _, part := range slices.Backward(parts) {
		inner = map[string]any{part: inner}
	}
	values := inner.(map[string]any)
	values["clusterID"] = "rome"
	return values
}
