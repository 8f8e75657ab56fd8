package status

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// shortcuts are paths of the reference, by their first name.
var shortcuts = map[string][]string{"clusterid": {"cluster", "clusterID"}, "local": {"cluster"}}

// query returns a field of a value as it is encoded, by a path of names that are separated by dots. The
// case of names does not matter, and a leading dot neither.
func query(value any, path string) (any, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	var current any
	if err := json.Unmarshal(encoded, &current); err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	names := strings.Split(strings.TrimPrefix(path, "."), ".")
	if _, err := child(current, names[0]); err != nil {
		if long, ok := shortcuts[strings.ToLower(names[0])]; ok {
			names = append(slices.Clone(long), names[1:]...)
		}
	}
	for i, name := range names {
		if current, err = child(current, name); err != nil {
			return nil, output.Usagef("invalid --get %q: %q %w", path, strings.Join(names[:i+1], "."), err)
		}
	}
	return current, nil
}

// child returns the field or the element of a name.
func child(value any, name string) (any, error) {
	fields, ok := value.(map[string]any)
	if !ok {
		fields = elements(value)
	}
	for key, field := range fields {
		if strings.EqualFold(key, name) {
			return field, nil
		}
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("does not exist")
	}
	return nil, fmt.Errorf("does not exist; there are %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
}

// elements returns the elements of a list by the name or the cluster ID of each.
func elements(value any) map[string]any {
	list, _ := value.([]any)
	named := map[string]any{}
	for _, element := range list {
		fields, _ := element.(map[string]any)
		for _, key := range []string{"clusterID", "name"} {
			if name, ok := fields[key].(string); ok {
				named[name] = element
			}
		}
	}
	return named
}
