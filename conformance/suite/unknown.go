package suite

import (
	"context"
	"fmt"
	"maps"

	"github.com/longshore-dev/longshore/conformance/trial"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

// unknownMember is a field of a future Kubernetes.
const unknownMember = "longshoreUnknown"

// structures are the members in which Kubernetes may add fields, unlike those of maps of
// strings. A list stands for its items, which have names.
var structures = [][]string{
	{}, {"metadata"}, {"spec"}, {"spec", "securityContext"}, {"spec", "affinity"},
	{"spec", "containers"}, {"spec", "initContainers"}, {"spec", "volumes"},
}

// unknownFields asks about an object with unknown fields. Apart from those, the result must be
// the same, and they must still be there.
func unknownFields(ctx context.Context, t *trial.Trial, q *question, first *chain.Result) error {
	extended := q.ask()
	extended.SkipChecks = true
	for _, path := range structures {
		extended.Object = extend(extended.Object, path)
	}
	answer, err := t.Ask(ctx, extended)
	if err != nil {
		return fmt.Errorf("with unknown fields: %w", err)
	}
	if answer.Result.Denial != nil {
		return fmt.Errorf("with unknown fields, denies the object: %s", answer.Result.Denial.Message)
	}
	for _, path := range structures {
		if err := preserved(extended.Object, answer.Result.Object, path, ""); err != nil {
			return err
		}
	}
	stripped, _ := strip(answer.Result.Object).(map[string]any)
	return sameObject(first.Object, stripped)
}

// extend returns a copy of the object with an unknown member at a path that exists.
func extend(object map[string]any, path []string) map[string]any {
	object = maps.Clone(object)
	if len(path) == 0 {
		object[unknownMember] = map[string]any{"kept": true}
		return object
	}
	switch child := object[path[0]].(type) {
	case map[string]any:
		object[path[0]] = extend(child, path[1:])
	case []any:
		items := make([]any, len(child))
		for i := range child {
			items[i] = child[i]
			if item, ok := child[i].(map[string]any); ok {
				items[i] = extend(item, nil)
			}
		}
		object[path[0]] = items
	}
	return object
}

// preserved returns an error if a structure is in both objects and lost its unknown member.
func preserved(before, after map[string]any, path []string, at string) error {
	if len(path) == 0 {
		if _, had := before[unknownMember]; !had {
			return nil
		}
		if _, has := after[unknownMember]; !has {
			return fmt.Errorf("the unknown field %s/%s was removed", at, unknownMember)
		}
		return nil
	}
	at += "/" + path[0]
	switch child := before[path[0]].(type) {
	case map[string]any:
		if kept, ok := after[path[0]].(map[string]any); ok {
			return preserved(child, kept, path[1:], at)
		}
	case []any:
		items, _ := after[path[0]].([]any)
		for _, item := range items {
			kept, _ := item.(map[string]any)
			for _, old := range child {
				had, ok := old.(map[string]any)
				if !ok || kept == nil || had["name"] != kept["name"] {
					continue
				}
				if err := preserved(had, kept, nil, fmt.Sprintf("%s[name=%v]", at, kept["name"])); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// strip returns a copy of a value without unknown members.
func strip(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for key, member := range v {
			if key != unknownMember {
				kept[key] = strip(member)
			}
		}
		return kept
	case []any:
		items := make([]any, len(v))
		for i := range v {
			items[i] = strip(v[i])
		}
		return items
	default:
		return value
	}
}
