package custom

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func schemaOf(t *testing.T, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	out := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &out))
	return map[string]any{"type": "object", "properties": out}
}

func TestCompareSchemas(t *testing.T) {
	for name, tc := range map[string]struct {
		local, remote string
		specOnly      bool
		want          []string
	}{
		"equal schemas": {
			local: "{spec: {type: object, properties: {a: {type: string}}}}", remote: "{spec: {type: object, properties: {a: {type: string}}}}",
		},
		"texts and metadata do not count": {
			local: "{metadata: {type: object}, spec: {type: object, description: x}}", remote: "{spec: {type: object, description: y}}",
		},
		"a schema that is not known": {local: "{spec: {type: object}}"},
		"a field that the provider does not have": {
			local: "{spec: {type: object, properties: {a: {type: string}}}}", remote: "{spec: {type: object}}",
			want: []string{"spec.a does not exist in the provider"},
		},
		"a field that the consumer does not have": {
			local: "{spec: {type: object}}", remote: "{spec: {type: object, properties: {a: {type: string}}}}",
		},
		"a field that only the provider requires": {
			local:  "{spec: {type: object, properties: {a: {type: string}}}}",
			remote: "{spec: {type: object, required: [a], properties: {a: {type: string}}}}",
			want:   []string{"spec.a is required in the provider"},
		},
		"a required field with a default": {
			local:  "{spec: {type: object, properties: {a: {type: string}}}}",
			remote: "{spec: {type: object, required: [a], properties: {a: {type: string, default: x}}}}",
		},
		"another type": {
			local: "{spec: {type: object, properties: {a: {type: string}}}}", remote: "{spec: {type: object, properties: {a: {type: integer}}}}",
			want: []string{"spec.a is string in the consumer and integer in the provider"},
		},
		"a number or a text": {
			local: "{spec: {type: object, properties: {a: {type: string}}}}", remote: "{spec: {type: object, properties: {a: {x-kubernetes-int-or-string: true}}}}",
			want: []string{"spec.a is string in the consumer and integer or string in the provider"},
		},
		"a value that the provider refuses": {
			local: "{spec: {type: object, properties: {a: {type: string, enum: [red, blue]}}}}", remote: "{spec: {type: object, properties: {a: {type: string, enum: [red, green]}}}}",
			want: []string{`spec.a: value "blue" is not allowed in the provider`},
		},
		"fields of list items": {
			local:  "{spec: {type: object, properties: {a: {type: array, items: {type: object, properties: {b: {type: string}}}}}}}",
			remote: "{spec: {type: object, properties: {a: {type: array, items: {type: object}}}}}",
			want:   []string{"spec.a[].b does not exist in the provider"},
		},
		"values of a map": {
			local:  "{spec: {type: object, additionalProperties: {type: string}}}",
			remote: "{spec: {type: object, additionalProperties: {type: integer}}}",
			want:   []string{"spec{} is string in the consumer and integer in the provider"},
		},
		"a map accepts every field": {
			local:  "{spec: {type: object, properties: {a: {type: string}}}}",
			remote: "{spec: {type: object, additionalProperties: {type: string}}}",
		},
		"a schema that preserves unknown fields": {
			local:  "{spec: {type: object, properties: {a: {type: string}}}}",
			remote: "{spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}",
		},
		"the status goes the other way": {
			local: "{status: {type: object, properties: {mine: {type: string}}}}", remote: "{status: {type: object, properties: {a: {type: string}}}}",
			want: []string{"status.a does not exist in the consumer"},
		},
		"the status does not count if it does not come back": {
			local: "{status: {type: object}}", remote: "{status: {type: object, properties: {a: {type: string}}}}", specOnly: true,
		},
		"fields beside the spec": {
			local: "{data: {type: string}}", remote: "{}", want: []string{"data does not exist in the provider"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, compareSchemas(schemaOf(t, tc.local), schemaOf(t, tc.remote), !tc.specOnly))
		})
	}
}

func TestDescribeDifferences(t *testing.T) {
	assert.Empty(t, describeDifferences(nil))
	assert.Equal(t, "a.", describeDifferences([]string{"a"}))
	assert.Equal(t, "a; b; c; d; e; and 2 more.", describeDifferences([]string{"a", "b", "c", "d", "e", "f", "g"}))
}
