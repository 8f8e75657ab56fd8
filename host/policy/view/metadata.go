package view

import (
	"context"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// MetadataInput are the facts about an object that is being reflected.
type MetadataInput struct {
	// APIVersion and Kind of the object.
	APIVersion string
	Kind       string
	// Namespace and Name of the local object.
	Namespace string
	Name      string
	// Labels and Annotations to be filtered. They are not altered.
	Labels      map[string]string
	Annotations map[string]string
	// NotReflected are the key lists of the VirtualNode.
	NotReflected contract.NotReflected
	// VirtualNode that reflects.
	VirtualNode contract.VirtualNode
}

// FilterMetadata asks the MetadataFilter policies which labels and annotations are
// reflected (stages 4 and 5). The maps that it returns are never nil, and are the
// given ones when no policy changed them.
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

// ReflectMetadata is [FilterMetadata] for an object that is sent as it is, without a seal:
// the annotations that it returns also tell, as policy.longshore.dev/decisions, which
// policies dropped or wrote which keys. They do so only when one did, and in the words of
// have, that annotation of the remote object, when the same was done before. What the
// local object tells under that key stays at home: it is about that object.
func ReflectMetadata(ctx context.Context, ev Evaluator, in MetadataInput, have string) (labels, annotations map[string]string, err error) {
	in.Annotations = annotated(in.Annotations, "")
	labels, annotations, decisions, err := FilterMetadata(ctx, ev, in)
	if err != nil {
		return nil, nil, err
	}
	return labels, annotated(annotations, encodeFilter(have, decisions, DecisionsRoom(annotations))), nil
}

// filter asks the MetadataFilter policies about an object.
func (o *outcome) filter(ctx context.Context, ev Evaluator, object, facts map[string]any, attributes chain.Attributes) (labels, annotations map[string]string, err error) {
	after, err := o.ask(ctx, ev, chain.Input{Point: contract.MetadataFilter, Object: object, Facts: facts, Match: attributes, Check: checkMetadata})
	if err != nil {
		return nil, nil, err
	}
	metadata, err := member(after, fieldMetadata)
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
