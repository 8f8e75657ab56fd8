package view

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// OffloadInput are the facts about a pod that is being forged for the provider.
type OffloadInput struct {
	// Local pod, unfiltered.
	Local *corev1.Pod
	// Draft of the ShadowPod before any policy (wire 3.2 step 1, 3.3).
	Draft *offloadingv1beta1.ShadowPod
	// Patch is the VirtualNode's spec.offloadingPatch, nil when it has none.
	Patch *offloadingv1beta1.OffloadingPatch
	// VirtualNode that the pod is bound to.
	VirtualNode contract.VirtualNode
	// NamespaceLabels are those of the local namespace, nil when they are not known:
	// bindings with a namespace selector then look them up.
	NamespaceLabels map[string]string
}

// OffloadResult is what the policies of stage 4 decided.
type OffloadResult struct {
	// ShadowPod afterwards: the draft when nothing changed, else a copy that shares with
	// it what did not.
	ShadowPod *offloadingv1beta1.ShadowPod
	// Changed tells whether a policy changed the draft.
	Changed bool
	// Decisions of the policies asked, in order.
	Decisions []chain.Decision
	// Denial is set when a policy refused the pod, or wants it to stay at home.
	Denial *chain.Denied
	// Warnings for the pod's owner.
	Warnings []string
}

// patchFacts is contract.Patch on the API's own types.
type patchFacts struct {
	NodeSelector     map[string]string           `json:"nodeSelector,omitempty"`
	Tolerations      []corev1.Toleration         `json:"tolerations,omitempty"`
	Affinity         *offloadingv1beta1.Affinity `json:"affinity,omitempty"`
	RuntimeClassName *string                     `json:"runtimeClassName,omitempty"`
}

// OffloadPod asks the policies of stage 4, in the order of chain.OffloadOrder; each
// sees the result of the one before. Local and Draft are not altered.
func OffloadPod(ctx context.Context, ev Evaluator, in OffloadInput) (*OffloadResult, error) {
	before, err := podObject(metadataObject(in.Draft.Name, in.Draft.Namespace, in.Draft.Labels, in.Draft.Annotations), &in.Draft.Spec.Pod)
	if err != nil {
		return nil, err
	}
	facts := map[string]any{"local": in.Local, "virtualNode": &in.VirtualNode}
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
		case stage.Point == contract.ResourceMutation && !AsksResources(ev):
			continue
		case stage.Point == contract.ResourceMutation:
			object, err = o.mutate(ctx, ev, object, localPod(in.Local), &in.VirtualNode, attributes, checkPod)
		default:
			object, err = o.ask(ctx, ev, chain.Input{
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
	shadow, err := readShadowPod(in.Draft, before, object)
	if err != nil {
		return nil, err
	}
	return &OffloadResult{
		ShadowPod: shadow, Changed: o.changed,
		Decisions: o.decisions, Denial: o.denial, Warnings: o.warnings,
	}, nil
}

// localPod is what the ResourceMutation policies are told of the local pod.
func localPod(pod *corev1.Pod) *contract.ObjectMetadata {
	return &contract.ObjectMetadata{APIVersion: "v1", Kind: "Pod", Metadata: contract.Metadata{
		Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Annotations: annotated(pod.Annotations, ""),
	}}
}

// filterDraft filters the draft's metadata; the object that these policies see is the
// local pod, by name and namespace.
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
	return with(draft, fieldMetadata, metadataObject(in.Draft.Name, in.Draft.Namespace, labels, annotations)), nil
}

// readShadowPod returns the draft with what changed between two layouts of it.
func readShadowPod(draft *offloadingv1beta1.ShadowPod, before, after map[string]any) (*offloadingv1beta1.ShadowPod, error) {
	if len(changed(before, after)) == 0 {
		return draft, nil
	}
	next := *draft
	metadata, err := member(after, fieldMetadata)
	if err != nil {
		return nil, err
	}
	if next.Labels, err = stringMap(metadata, fieldLabels); err != nil {
		return nil, err
	}
	if next.Annotations, err = stringMap(metadata, fieldAnnotations); err != nil {
		return nil, err
	}
	oldSpec, newSpec, err := both(before, after, fieldSpec)
	if err != nil {
		return nil, err
	}
	if err := readBack(&next.Spec.Pod, oldSpec, newSpec, fieldSpec); err != nil {
		return nil, err
	}
	return &next, nil
}
