package view

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// OffloadInput are the facts about a pod that is forged for the provider.
type OffloadInput struct {
	// Local pod, unfiltered.
	Local *corev1.Pod
	// Draft of the ShadowPod before the policies.
	Draft *offloadingv1beta1.ShadowPod
	// Patch is the VirtualNode's spec.offloadingPatch; may be nil.
	Patch *offloadingv1beta1.OffloadingPatch
	// VirtualNode to which the pod is bound.
	VirtualNode contract.VirtualNode
	// NamespaceLabels of the local namespace; nil if unknown, and bindings with a namespace
	// selector then look them up.
	NamespaceLabels map[string]string
}

// OffloadResult is the result of the policies of stage 4.
type OffloadResult struct {
	// ShadowPod after the policies: the draft if nothing changed, else a copy that shares
	// its unchanged fields.
	ShadowPod *offloadingv1beta1.ShadowPod
	// Changed reports whether a policy changed the draft.
	Changed bool
	// Decisions of the policies that were called, in order.
	Decisions []chain.Decision
	// Denial is set if a policy denied or skipped the pod.
	Denial *chain.Denied
	// Warnings for the pod's owner.
	Warnings []string
}

// patchFacts is contract.Patch with the types of the API.
type patchFacts struct {
	NodeSelector     map[string]string           `json:"nodeSelector,omitempty"`
	Tolerations      []corev1.Toleration         `json:"tolerations,omitempty"`
	Affinity         *offloadingv1beta1.Affinity `json:"affinity,omitempty"`
	RuntimeClassName *string                     `json:"runtimeClassName,omitempty"`
}

// OffloadPod evaluates the policies of stage 4 in the order of chain.OffloadOrder. Local and
// Draft are not altered.
func OffloadPod(ctx context.Context, ev Evaluator, in OffloadInput) (*OffloadResult, error) {
	before, err := podObject(metadataObject(in.Draft.Name, in.Draft.Namespace, in.Draft.Labels, in.Draft.Annotations), &in.Draft.Spec.Pod)
	if err != nil {
		return nil, err
	}
	// Several policies look into the local pod: open it once.
	local, err := document.Object(in.Local)
	if err != nil {
		return nil, fmt.Errorf("reading the local pod: %w", err)
	}
	for _, field := range []string{fieldMetadata, fieldSpec} {
		if local[field], err = document.Member(local, field); err != nil {
			return nil, fmt.Errorf("reading the local pod: %w", err)
		}
	}
	facts := map[string]any{"local": local, "virtualNode": &in.VirtualNode}
	notReflected := contract.NotReflected{}
	if in.Patch != nil {
		facts["patch"] = &patchFacts{
			NodeSelector: in.Patch.NodeSelector, Tolerations: in.Patch.Tolerations,
			Affinity: in.Patch.Affinity, RuntimeClassName: in.Patch.RuntimeClassName,
		}
		notReflected = contract.NotReflected{Labels: in.Patch.LabelsNotReflected, Annotations: in.Patch.AnnotationsNotReflected}
	}
	attributes := chain.Attributes{
		Namespace: in.Local.Namespace, NamespaceLabels: in.NamespaceLabels,
		Labels: in.Local.Labels, VirtualNode: in.VirtualNode.Name,
	}
	var o outcome
	object := before
	for _, stage := range chain.OffloadOrder() {
		switch {
		case stage.Point == contract.MetadataFilter:
			object, err = o.filterDraft(ctx, ev, in, object, metadataFilterFacts(notReflected, &in.VirtualNode), attributes)
		case stage.Point == contract.ResourceMutation && !HasResourcePolicies(ev):
			continue
		case stage.Point == contract.ResourceMutation:
			object, err = o.mutate(ctx, ev, object, localPod(in.Local), &in.VirtualNode, attributes, checkPod)
		default:
			object, err = o.evaluate(ctx, ev, chain.Input{
				Point: stage.Point, Moment: stage.Moment, Object: object, Facts: facts, Match: attributes, Check: checkPod,
			})
		}
		if err != nil {
			return nil, err
		}
		if o.denial != nil {
			break
		}
	}
	shadow, err := shadowPodWithChanges(in.Draft, before, object)
	if err != nil {
		return nil, err
	}
	return &OffloadResult{
		ShadowPod: shadow, Changed: o.changed,
		Decisions: o.decisions, Denial: o.denial, Warnings: o.warnings,
	}, nil
}

// localPod returns the fact "local" of the ResourceMutation policies for a pod.
func localPod(pod *corev1.Pod) *contract.ObjectMetadata {
	return &contract.ObjectMetadata{APIVersion: "v1", Kind: "Pod", Metadata: contract.Metadata{
		Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Annotations: withDecisions(pod.Annotations, ""),
	}}
}

// filterDraft filters the draft's metadata. These policies get an object with the name and
// namespace of the local pod.
func (o *outcome) filterDraft(ctx context.Context, ev Evaluator, in OffloadInput, draft, facts map[string]any, attributes chain.Attributes) (map[string]any, error) {
	object := map[string]any{
		"apiVersion":  draft["apiVersion"],
		"kind":        draft["kind"],
		fieldMetadata: metadataObject(in.Local.Name, in.Local.Namespace, in.Draft.Labels, in.Draft.Annotations),
	}
	labels, annotations, err := o.filter(ctx, ev, object, facts, attributes)
	if err != nil {
		return nil, err
	}
	if !o.changed {
		return draft, nil
	}
	return document.With(draft, fieldMetadata, metadataObject(in.Draft.Name, in.Draft.Namespace, labels, annotations)), nil
}

// shadowPodWithChanges returns the draft with the differences between two documents of it.
func shadowPodWithChanges(draft *offloadingv1beta1.ShadowPod, before, after map[string]any) (*offloadingv1beta1.ShadowPod, error) {
	if len(document.Changed(before, after)) == 0 {
		return draft, nil
	}
	next := *draft
	metadata, err := document.Member(after, fieldMetadata)
	if err != nil {
		return nil, err
	}
	if next.Labels, err = stringMap(metadata, fieldLabels); err != nil {
		return nil, err
	}
	if next.Annotations, err = stringMap(metadata, fieldAnnotations); err != nil {
		return nil, err
	}
	oldSpec, newSpec, err := bothMembers(before, after, fieldSpec)
	if err != nil {
		return nil, err
	}
	if err := decodeChanges(&next.Spec.Pod, oldSpec, newSpec, fieldSpec); err != nil {
		return nil, err
	}
	return &next, nil
}
