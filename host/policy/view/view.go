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
	"fmt"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
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
	members, err := document.Object(spec)
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

// decodeChanges decodes the members that differ between two objects into a struct. It leaves
// the struct's other fields unchanged. field names the object in errors.
func decodeChanges[T any](target *T, before, after map[string]any, field string) error {
	names := document.Changed(before, after)
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
		if err := document.CopyMember(target, &decoded, name); err != nil {
			return fmt.Errorf("decoding the changed %s: %w", field, err)
		}
	}
	return nil
}

// stringMap returns labels or annotations of a document, nil if there are none.
func stringMap(metadata map[string]any, field string) (map[string]string, error) {
	if texts, ok := metadata[field].(map[string]string); ok {
		return texts, nil
	}
	members, err := document.Object(metadata[field])
	if err != nil {
		return nil, fmt.Errorf("metadata.%s: %w", field, err)
	}
	if members == nil {
		return nil, nil
	}
	out := make(map[string]string, len(members))
	for key, member := range members {
		text, ok := member.(string)
		if !ok {
			return nil, fmt.Errorf("metadata.%s[%q] has type %T, want a string", field, key, member)
		}
		out[key] = text
	}
	return out, nil
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

// metadataFilterFacts returns the facts of contract.MetadataFilter beside the object.
func metadataFilterFacts(notReflected contract.NotReflected, node *contract.VirtualNode) map[string]any {
	return map[string]any{"notReflected": &notReflected, "virtualNode": node}
}
