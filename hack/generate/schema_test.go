package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/builtin-policies/defaults"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const top = "../.."

// schemas makes all schemas anew.
func schemas(t *testing.T) map[string]map[string]any {
	t.Helper()
	c, err := readContract(filepath.Join(top, contractDir))
	require.NoError(t, err)
	made := map[string]map[string]any{}
	for file, root := range roots {
		data, err := c.schema(file, root)
		require.NoError(t, err)
		committed, err := os.ReadFile(filepath.Join(top, schemaDir, file+".json"))
		require.NoError(t, err, "run make generate")
		assert.Equal(t, string(data), string(committed), "%s is stale: run make generate", file)
		var schema map[string]any
		require.NoError(t, json.Unmarshal(data, &schema))
		made[file] = schema
	}
	return made
}

// TestSchemasDescribeTheContract holds each schema to its examples and to all vectors.
func TestSchemasDescribeTheContract(t *testing.T) {
	made := schemas(t)
	files, err := filepath.Glob(filepath.Join(top, schemaDir, "*"))
	require.NoError(t, err)
	assert.Len(t, files, len(roots), "nothing else lies there")
	for file, schema := range made {
		v := validator{schema}
		for _, example := range schema["examples"].([]any) {
			require.NoError(t, v.check(schema, example, file))
		}
		definitions, _ := schema["$defs"].(map[string]any)
		for name, definition := range definitions {
			examples, _ := definition.(map[string]any)["examples"].([]any)
			for _, example := range examples {
				require.NoError(t, v.check(definition, example, file+" "+name))
			}
		}
	}

	all, err := vectors.All()
	require.NoError(t, err)
	for i := range all {
		accepts(t, made["request"], all[i].Request, all[i].Name)
		var request contract.Request
		require.NoError(t, json.Unmarshal(all[i].Request, &request))
		facts := "facts-" + strings.ReplaceAll(request.Point.Export(), "_", "-")
		require.Contains(t, made, facts)
		accepts(t, made[facts], request.Facts, all[i].Name)
		if len(all[i].Response) > 0 {
			accepts(t, made["response"], all[i].Response, all[i].Name)
		}
	}
	manifest, err := json.Marshal(defaults.Manifest())
	require.NoError(t, err)
	accepts(t, made["manifest"], manifest, "the built-in manifest")
}

func accepts(t *testing.T, schema map[string]any, data []byte, what string) {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(data, &value))
	assert.NoError(t, validator{schema}.check(schema, value, what))
}

func TestSchemasRefuseWhatTheHostRefuses(t *testing.T) {
	made := schemas(t)
	for name, tc := range map[string]struct{ file, data string }{
		"an unknown member of a response":            {"response", `{"version":"v1alpha1","operation":[]}`},
		"no version":                                 {"response", `{"operations":[]}`},
		"an unknown verb":                            {"response", `{"version":"v1alpha1","operations":[{"op":"copy","path":"/a"}]}`},
		"a denial without a reason":                  {"response", `{"version":"v1alpha1","deny":{"message":"m"}}`},
		"an unknown point":                           {"manifest", `{"name":"n","version":"1","contracts":["v1alpha1"],"points":[{"point":"Other","reads":[]}]}`},
		"reads that are not a list":                  {"manifest", `{"name":"n","version":"1","contracts":["v1alpha1"],"points":[{"point":"MetadataFilter","reads":"/a"}]}`},
		"a label that is not a string, in the facts": {"facts-metadata-filter", `{"object":{"metadata":{"labels":{"a":1}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var value any
			require.NoError(t, json.Unmarshal([]byte(tc.data), &value))
			assert.Error(t, validator{made[tc.file]}.check(made[tc.file], value, ""))
		})
	}
}

func TestCommentsAreSplit(t *testing.T) {
	text, examples, err := split("T is\na type.\n\nExample:\n\n\t{\"a\":\n\t 1}\n\t{\"b\":2}\n")
	require.NoError(t, err)
	assert.Equal(t, "T is a type.", text)
	assert.Len(t, examples, 2)
	_, _, err = split("T.\n\nExample:\n\n\t{\n")
	require.ErrorContains(t, err, "no JSON")
}

// validator knows as much of JSON Schema as the generator writes.
type validator struct{ root map[string]any }

func (v validator) check(schema, value any, at string) error {
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		definitions, _ := v.root["$defs"].(map[string]any)
		target, ok := definitions[strings.TrimPrefix(ref, "#/$defs/")]
		if !ok {
			return fmt.Errorf("%s: %s leads nowhere", at, ref)
		}
		return v.check(target, value, at)
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, value) {
		return fmt.Errorf("%s: %v is none of %v", at, value, enum)
	}
	switch kind := s["type"]; kind {
	case "object":
		members, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: %v is not an object", at, value)
		}
		return v.members(s, members, at)
	case "array":
		items, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%s: %v is not a list", at, value)
		}
		for i, item := range items {
			if err := v.check(s["items"], item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "string", "boolean", "integer":
		got := map[string]bool{}
		switch number := value.(type) {
		case string:
			got["string"] = true
		case bool:
			got["boolean"] = true
		case float64:
			got["integer"] = number == float64(int64(number))
		}
		if !got[kind.(string)] {
			return fmt.Errorf("%s: %v is no %s", at, value, kind)
		}
	}
	return nil
}

func (v validator) members(schema, members map[string]any, at string) error {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := members[name.(string)]; !ok {
			return fmt.Errorf("%s: %s is missing", at, name)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range members {
		property, known := properties[name]
		if !known {
			property = schema["additionalProperties"]
			if property == false {
				return fmt.Errorf("%s: %s is unknown", at, name)
			}
		}
		if err := v.check(property, value, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}
