package hostile_test

import (
	"maps"
	"slices"
	"strings"
)

// field is a place of a sample object that can hold something else.
type field struct {
	path string
	// schema is that of the place, as the CRD has it.
	schema map[string]any
	set    func(any)
	// omit removes an optional field.
	omit func()
	// sample is what the API server accepts there.
	sample any
	// isLeaf is whether nothing is below it.
	isLeaf bool
	// isOptional is whether its object may be without it.
	isOptional bool
}

// restore sets what the API server accepts.
func (f *field) restore() { f.set(f.sample) }

// samplesOf returns an object with all fields of a schema, and these, parents first.
func samplesOf(schema map[string]any, path string) (any, []*field) {
	switch {
	case schema["type"] == "object" && len(child(schema, "properties")) > 0:
		return objectOf(schema, path)
	case schema["type"] == "object" && child(schema, "additionalProperties") != nil:
		out := map[string]any{}
		return out, entryOf(out, "cpu", child(schema, "additionalProperties"), path, false)
	case schema["type"] == "array":
		out := make([]any, 1)
		value, below := samplesOf(child(schema, "items"), path+".0")
		item := &field{path: path + ".0", schema: child(schema, "items"), sample: value, isLeaf: len(below) == 0, set: func(v any) { out[0] = v }}
		item.omit = item.restore
		item.restore()
		return out, append([]*field{item}, below...)
	default:
		return sampleOf(schema), nil
	}
}

func objectOf(schema map[string]any, path string) (any, []*field) {
	out, fields := map[string]any{}, []*field{}
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(child(schema, "properties"))) {
		fields = append(fields, entryOf(out, name, child(child(schema, "properties"), name), path, slices.Contains(required, any(name)))...)
	}
	return out, fields
}

// entryOf adds an entry to an object.
func entryOf(out map[string]any, name string, schema map[string]any, path string, isRequired bool) []*field {
	value, below := samplesOf(schema, path+"."+name)
	f := &field{path: path + "." + name, schema: schema, sample: value, isLeaf: len(below) == 0, isOptional: !isRequired, set: func(v any) { out[name] = v }}
	f.omit = func() { delete(out, name) }
	if isRequired {
		f.omit = f.restore
	}
	f.restore()
	return append([]*field{f}, below...)
}

// sampleOf returns a value of a schema that has nothing below it.
func sampleOf(schema map[string]any) any {
	if values, ok := schema["enum"].([]any); ok {
		return values[0]
	}
	pattern, _ := schema["pattern"].(string)
	format, _ := schema["format"].(string)
	switch {
	case schema["x-kubernetes-int-or-string"] == true, schema["type"] == "integer", schema["type"] == "number":
		if least, ok := schema["minimum"].(float64); ok && least > 1 {
			return least
		}
		return 1
	case schema["type"] == "boolean":
		return true
	case schema["type"] == "object":
		return map[string]any{}
	case format == "date-time":
		return "2026-11-28T05:00:00Z"
	case format == "byte":
		return "YQ=="
	case format == "cidr":
		return "10.0.0.0/16"
	case format == "ipv4":
		return "10.0.0.1"
	case strings.HasPrefix(pattern, "^sha256:"):
		return "sha256:" + strings.Repeat("0", 64)
	case strings.HasPrefix(pattern, "^/"):
		return "/a"
	case strings.HasPrefix(pattern, "^[A-Z]"):
		return "A"
	case strings.HasSuffix(pattern, ")?)+$"):
		return "a.example"
	default:
		return "a"
	}
}

func child(object map[string]any, key string) map[string]any {
	value, _ := object[key].(map[string]any)
	return value
}
