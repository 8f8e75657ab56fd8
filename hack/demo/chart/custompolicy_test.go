package chart

import (
	"encoding/base64"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func custom(policies map[string]any) map[string]any {
	return map[string]any{"clusterID": "rome", "policies": map[string]any{"custom": policies}}
}

func TestCustomPoliciesAreRendered(t *testing.T) {
	module := []byte("\x00asm\x01\x00\x00\x00")
	objects := render(t, custom(map[string]any{
		"from-a-file": map[string]any{
			"module": map[string]any{"base64": base64.StdEncoding.EncodeToString(module) + "\n"},
			"points": []any{"PodMutation"}, "order": 10, "settings": map[string]any{"a": map[string]any{"b": 1}},
		},
		"from-a-configmap": map[string]any{"module": map[string]any{"configMap": map[string]any{"name": "mine", "key": "module.wasm.gz"}}, "mode": "Shadow"},
	}))
	stored, _, err := unstructured.NestedString(find(t, objects, "ConfigMap", "longshore-policy-from-a-file").Object, "binaryData", "module.wasm")
	require.NoError(t, err)
	assert.Equal(t, base64.StdEncoding.EncodeToString(module), stored)
	assert.Equal(t, map[string]any{
		"module": map[string]any{"configMap": map[string]any{
			"namespace": "longshore", "name": "longshore-policy-from-a-file", "key": "module.wasm",
			"digest": "sha256:93a44bbb96c751218e4c00d479e4c14358122a389acca16205b1e4d0dc5f9476",
		}},
		"points": []any{"PodMutation"}, "order": 10.0, "settings": map[string]any{"a": map[string]any{"b": 1.0}},
	}, find(t, objects, "OffloadingPolicy", "from-a-file").Object["spec"])
	assert.Equal(t, map[string]any{
		"module": map[string]any{"configMap": map[string]any{"namespace": "longshore", "name": "mine", "key": "module.wasm.gz"}}, "mode": "Shadow",
	}, find(t, objects, "OffloadingPolicy", "from-a-configmap").Object["spec"])
}

func TestBadCustomPoliciesAreRefused(t *testing.T) {
	inline := map[string]any{"base64": "AGFzbQEAAAA="}
	large := make([]byte, 400<<10)
	copy(large, "\x00asm")
	for name, tc := range map[string]struct {
		policies map[string]any
		want     string
	}{
		"the name of a default":         {map[string]any{"default-mine": map[string]any{"module": inline}}, "names that begin with default- are those of the default policies"},
		"a name with capitals":          {map[string]any{"Mine": map[string]any{"module": inline}}, "Mine"},
		"no module":                     {map[string]any{"mine": map[string]any{}}, "module"},
		"two modules":                   {map[string]any{"mine": map[string]any{"module": map[string]any{"base64": "AGFzbQEAAAA=", "configMap": map[string]any{"name": "m"}}}}, "module"},
		"an unknown field":              {map[string]any{"mine": map[string]any{"module": inline, "ordr": 1}}, "ordr"},
		"an unknown point":              {map[string]any{"mine": map[string]any{"module": inline, "points": []any{"PodDeletion"}}}, "points"},
		"text that is not base64":       {map[string]any{"mine": map[string]any{"module": map[string]any{"base64": "\x1f\x8b"}}}, "is not the base64 text of a module"},
		"a module that is too large":    {map[string]any{"mine": map[string]any{"module": map[string]any{"base64": base64.StdEncoding.EncodeToString(large)}}}, "keep a module of more than 300 KiB in a ConfigMap of your own"},
		"a ConfigMap of an alien place": {map[string]any{"mine": map[string]any{"module": map[string]any{"configMap": map[string]any{"name": "m", "namespace": "team-a"}}}}, "add the namespace to policies.namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(custom(tc.policies), Options{})
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// The schema of the values knows the fields and the choices of the CustomResourceDefinition.
func TestTheSchemaOfCustomPoliciesIsThatOfTheKind(t *testing.T) {
	type field struct {
		Enum       []string         `json:"enum"`
		Items      *field           `json:"items"`
		Properties map[string]field `json:"properties"`
	}
	var schema struct {
		Properties struct {
			Policies struct {
				Properties struct {
					Custom struct {
						AdditionalProperties field `json:"additionalProperties"`
					} `json:"custom"`
				} `json:"properties"`
			} `json:"policies"`
		} `json:"properties"`
	}
	require.NoError(t, yaml.Unmarshal(readSource(t, "charts/longshore/values.schema.json"), &schema))
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema field `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(readSource(t, "charts/longshore/crds/offloadingpolicies.yaml"), &crd))
	want := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	have := schema.Properties.Policies.Properties.Custom.AdditionalProperties.Properties
	assert.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(have)))
	for name, of := range want {
		assert.ElementsMatch(t, of.Enum, have[name].Enum, name)
		if of.Items != nil && len(of.Items.Enum) > 0 {
			assert.ElementsMatch(t, of.Items.Enum, have[name].Items.Enum, name)
		}
	}
}
