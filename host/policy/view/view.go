// Package view converts between Kubernetes objects and the documents of policies: it turns
// objects into documents, evaluates the policies of an extension point, and decodes the
// changed fields strictly.
//
// Fields that no policy changes are never converted, so none is lost. A changed field that
// the host does not know is an error. The package does not choose policies and does not
// check the host's invariants.
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

// Evaluator evaluates the policies of an extension point. *chain.Chains implements it.
type Evaluator interface {
	Evaluate(ctx context.Context, in chain.Input) (*chain.Result, error)
}

// Members of documents.
const (
	fieldMetadata    = "metadata"
	fieldSpec        = "spec"
	fieldStatus      = "status"
	fieldLabels      = "labels"
	fieldAnnotations = "annotations"
)

// podObject returns the document of a pod. Its metadata and spec are objects; their members
// stay typed.
func podObject(metadata map[string]any, spec any) (map[string]any, error) {
	members, err := operation.Members(spec)
	if err != nil {
		return nil, fmt.Errorf("listing the fields of the pod spec: %w", err)
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", fieldMetadata: metadata, fieldSpec: members}, nil
}

// metadataObject returns an object with those of name, namespace, labels and annotations
// that are not empty.
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

// member returns a member that must be an object, nil if it is absent.
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
		return nil, fmt.Errorf("%s has type %T, want an object", name, value)
	}
	return members, nil
}

// changedMembers returns the names of the members that differ between two objects, sorted.
// Members that no operation changed are identical values, so nothing is compared deeply.
func changedMembers(before, after map[string]any) []string {
	var names []string
	for name, value := range after {
		if old, had := before[name]; !had || !isIdentical(old, value) {
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

// isIdentical reports whether two values share their memory or, for scalars, are equal.
func isIdentical(a, b any) bool {
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

// decodeChanges decodes the members that differ between two objects into a struct. It leaves
// the struct's other fields unchanged. field names the object in errors.
func decodeChanges[T any](target *T, before, after map[string]any, field string) error {
	names := changedMembers(before, after)
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
	if err := decodeStrictly(values, &decoded); err != nil {
		return fmt.Errorf("decoding the changed %s: %w", field, err)
	}
	for _, name := range names {
		if err := operation.CopyMember(target, &decoded, name); err != nil {
			return fmt.Errorf("decoding the changed %s: %w", field, err)
		}
	}
	return nil
}

// stringMap returns labels or annotations of a document, nil if there are none.
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
				return nil, fmt.Errorf("metadata.%s[%q] has type %T, want a string", field, key, item)
			}
			out[key] = text
		}
		return out, nil
	case json.RawMessage:
		// Not changed by policies.
		var out map[string]string
		if err := json.Unmarshal(value, &out); err != nil {
			return nil, fmt.Errorf("decoding metadata.%s: %w", field, err)
		}
		return out, nil
	default:
		return nil, fmt.Errorf("metadata.%s has type %T, want an object", field, value)
	}
}

// outcome accumulates the results of several evaluations.
type outcome struct {
	decisions []chain.Decision
	warnings  []string
	denial    *chain.Denied
	changed   bool
}

// evaluate evaluates the policies of one point and returns the object afterwards.
func (o *outcome) evaluate(ctx context.Context, ev Evaluator, in chain.Input) (map[string]any, error) {
	result, err := ev.Evaluate(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("evaluating the %s policies: %w", in.Point, err)
	}
	logDecisions(ctx, result.Decisions)
	o.decisions = append(o.decisions, result.Decisions...)
	o.warnings = append(o.warnings, result.Warnings...)
	o.denial = result.Denial
	o.changed = o.changed || result.Changed
	return result.Object, nil
}

// withMember returns a copy of an object with one member replaced.
func withMember(object map[string]any, name string, value any) map[string]any {
	next := maps.Clone(object)
	next[name] = value
	return next
}

// metadataFilterFacts returns the facts of contract.MetadataFilter beside the object.
func metadataFilterFacts(notReflected contract.NotReflected, node *contract.VirtualNode) map[string]any {
	return map[string]any{"notReflected": &notReflected, "virtualNode": node}
}
