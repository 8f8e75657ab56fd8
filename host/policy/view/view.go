// Package view is the only bridge between Kubernetes objects and the contract: it
// lays typed objects out as the facts that policies ask for, lets an [Evaluator]
// decide, and reads back strictly what was changed.
//
// Fields that no policy touches are never converted, so none can be lost, and a
// decision that is remembered costs little. A field that a policy writes and that
// the host does not know is an error that names it. The package does not choose
// policies and does not check the host's invariants.
package view

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Evaluator asks the policies of an extension point; *chain.Chains is one.
type Evaluator interface {
	Evaluate(ctx context.Context, in chain.Input) (*chain.Result, error)
}

// Members of the objects that policies see.
const (
	fieldMetadata    = "metadata"
	fieldSpec        = "spec"
	fieldLabels      = "labels"
	fieldAnnotations = "annotations"
)

// podObject lays a pod out: its metadata and spec are objects, what is below stays
// typed until somebody looks at it.
func podObject(metadata map[string]any, spec any) (map[string]any, error) {
	members, err := operation.Members(spec)
	if err != nil {
		return nil, fmt.Errorf("laying out the pod spec: %w", err)
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", fieldMetadata: metadata, fieldSpec: members}, nil
}

// metadataObject holds what is set of name, namespace, labels and annotations.
func metadataObject(name, namespace string, labels, annotations map[string]string) map[string]any {
	metadata := make(map[string]any, 4)
	if name != "" {
		metadata["name"] = name
	}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if len(labels) > 0 {
		metadata[fieldLabels] = labels
	}
	if len(annotations) > 0 {
		metadata[fieldAnnotations] = annotations
	}
	return metadata
}

// member returns an object's member that is an object itself, nil when absent.
func member(object map[string]any, name string) (map[string]any, error) {
	value, err := operation.Normalize(object[name])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if value == nil {
		return nil, nil
	}
	members, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s became a %T, it must be an object", name, value)
	}
	return members, nil
}

// changed returns the names of the members that differ between two objects, sorted.
// Members that no operation touched are the same values, so nothing is compared deeply.
func changed(before, after map[string]any) []string {
	var names []string
	for name, value := range after {
		if old, had := before[name]; !had || !same(old, value) {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, has := after[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// same reports whether two values are one and the same, not merely equal.
func same(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Type() != y.Type() {
		return false
	}
	switch x.Kind() {
	case reflect.Map:
		return x.Pointer() == y.Pointer()
	case reflect.Slice:
		return x.Pointer() == y.Pointer() && x.Len() == y.Len()
	default:
		return x.Comparable() && a == b
	}
}

// readBack sets in target, a pointer to a struct, the members that changed between
// two objects, decoding them strictly. The struct's other fields are left alone.
func readBack[T any](target *T, before, after map[string]any, prefix string) error {
	names := changed(before, after)
	if len(names) == 0 {
		return nil
	}
	values := make(map[string]any, len(names))
	for _, name := range names {
		if value, ok := after[name]; ok && value != nil {
			values[name] = value
		}
	}
	var decoded T
	if err := readStrictly(values, &decoded); err != nil {
		return fmt.Errorf("reading back %s: %w", prefix, err)
	}
	for _, name := range names {
		if err := operation.CopyMember(target, &decoded, name); err != nil {
			return fmt.Errorf("reading back %s: %w", prefix, err)
		}
	}
	return nil
}

// stringMap reads labels or annotations back; nil when there are none.
func stringMap(metadata map[string]any, field string) (map[string]string, error) {
	switch value := metadata[field].(type) {
	case nil:
		return nil, nil
	case map[string]string:
		return value, nil
	case map[string]any:
		out := make(map[string]string, len(value))
		for key, item := range value {
			text, ok := item.(string)
			if !ok {
				return nil, fmt.Errorf("a policy set metadata.%s key %q to a %T, its author must make it a string", field, key, item)
			}
			out[key] = text
		}
		return out, nil
	case json.RawMessage:
		// Untouched by policies: as the API server sent it.
		var out map[string]string
		if err := json.Unmarshal(value, &out); err != nil {
			return nil, fmt.Errorf("reading metadata.%s: %w", field, err)
		}
		return out, nil
	default:
		return nil, fmt.Errorf("a policy made metadata.%s a %T, its author must make it an object", field, value)
	}
}

// outcome gathers what the policies of several questions decided.
type outcome struct {
	decisions []chain.Decision
	warnings  []string
	denial    *chain.Denied
	changed   bool
}

// ask asks one question and returns the object afterwards.
func (o *outcome) ask(ctx context.Context, ev Evaluator, in chain.Input) (map[string]any, error) {
	result, err := ev.Evaluate(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("asking the %s policies: %w", in.Point, err)
	}
	trace(ctx, result.Decisions)
	o.decisions = append(o.decisions, result.Decisions...)
	o.warnings = append(o.warnings, result.Warnings...)
	o.denial = result.Denial
	o.changed = o.changed || result.Changed
	return result.Object, nil
}

// with returns a copy of an object with one member replaced.
func with(object map[string]any, name string, value any) map[string]any {
	next := maps.Clone(object)
	next[name] = value
	return next
}

// metadataFilterFacts are the facts of contract.MetadataFilter beside the object.
func metadataFilterFacts(notReflected contract.NotReflected, node *contract.VirtualNode) map[string]any {
	return map[string]any{"notReflected": &notReflected, "virtualNode": node}
}
