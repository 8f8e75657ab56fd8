package view

import (
	"context"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// MetadataInput are the facts about an object that is reflected.
type MetadataInput struct {
	// APIVersion and Kind of the object.
	APIVersion string
	Kind       string
	// Namespace and Name of the local object.
	Namespace string
	Name      string
	// Labels and Annotations to filter. They are not altered.
	Labels      map[string]string
	Annotations map[string]string
	// NotReflected are the key lists of the VirtualNode.
	NotReflected contract.NotReflected
	// VirtualNode that reflects the object.
	VirtualNode contract.VirtualNode
}

// FilterMetadata evaluates the MetadataFilter policies, which decide which labels and
// annotations are reflected (stages 4 and 5). The returned maps are never nil; they are the
// given ones if no policy changed them.
func FilterMetadata(ctx context.Context, ev Evaluator, in MetadataInput) (labels, annotations map[string]string, decisions []chain.Decision, err error) {
	var o outcome
	object := map[string]any{
		"apiVersion":  in.APIVersion,
		"kind":        in.Kind,
		fieldMetadata: metadataObject(in.Name, in.Namespace, in.Labels, in.Annotations),
	}
	labels, annotations, err = o.filter(ctx, ev, object, metadataFilterFacts(in.NotReflected, &in.VirtualNode), chain.Attributes{
		Namespace: in.Namespace, Labels: in.Labels, VirtualNode: in.VirtualNode.Name,
	})
	return labels, annotations, o.decisions, err
}

// ReflectMetadata is [FilterMetadata] for an object that is not sealed. It adds the
// annotation policy.longshore.dev/decisions if a policy changed labels or annotations. have
// is that annotation of the remote object; it is kept if it records the same changes. The
// annotation of the local object is about the local object and is not reflected.
func ReflectMetadata(ctx context.Context, ev Evaluator, in MetadataInput, have string) (labels, annotations map[string]string, err error) {
	in.Annotations = withDecisions(in.Annotations, "")
	labels, annotations, decisions, err := FilterMetadata(ctx, ev, in)
	if err != nil {
		return nil, nil, err
	}
	return labels, withDecisions(annotations, encodeFilter(have, decisions, DecisionsRoom(annotations))), nil
}

// filter evaluates the MetadataFilter policies.
func (o *outcome) filter(ctx context.Context, ev Evaluator, object, facts map[string]any, attributes chain.Attributes) (labels, annotations map[string]string, err error) {
	after, err := o.evaluate(ctx, ev, chain.Input{Point: contract.MetadataFilter, Object: object, Facts: facts, Match: attributes, Check: checkMetadata})
	if err != nil {
		return nil, nil, err
	}
	metadata, err := document.Member(after, fieldMetadata)
	if err != nil {
		return nil, nil, err
	}
	if labels, err = stringMap(metadata, fieldLabels); err != nil {
		return nil, nil, err
	}
	if annotations, err = stringMap(metadata, fieldAnnotations); err != nil {
		return nil, nil, err
	}
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	return labels, annotations, nil
}
