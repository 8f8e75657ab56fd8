package pod

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// ForgeInput is what a ShadowPod is built from.
type ForgeInput struct {
	// Local pod. It is not altered.
	Local *corev1.Pod
	// RemoteNamespace is the namespace of the ShadowPod.
	RemoteNamespace string
	// Origin identifies the consumer, the provider and the virtual node.
	Origin remote.Origin
	// Evaluator runs the policies.
	Evaluator view.Evaluator
	// Patch is the VirtualNode's offloadingPatch; may be nil.
	Patch *offloadingv1beta1.OffloadingPatch
	// VirtualNode are the facts about the virtual node that policies read.
	VirtualNode contract.VirtualNode
	// NamespaceLabels of the local namespace; nil if unknown.
	NamespaceLabels map[string]string
}

// Forged is a ShadowPod after policies and invariants.
type Forged struct {
	// Draft is the ShadowPod before the policies.
	Draft *offloadingv1beta1.ShadowPod
	// ShadowPod to send; nil if the pod is denied or an invariant is violated.
	ShadowPod *offloadingv1beta1.ShadowPod
	// Decisions of the policies that were called, in order.
	Decisions []chain.Decision
	// Warnings of the policies.
	Warnings []string
	// Denial is set if a policy denied or skipped the pod.
	Denial *chain.Denied
	// Violation says which policies violated an invariant; empty for none.
	Violation string
}

// Forge builds the ShadowPod of a pod: draft, policies, invariants, seal (stage 4). It has no
// effect beside calling policies.
func Forge(ctx context.Context, in ForgeInput) (*Forged, error) {
	draft := remote.PodDraft(in.Local, in.RemoteNamespace, in.Origin)
	result, err := view.OffloadPod(ctx, in.Evaluator, view.OffloadInput{
		Local: in.Local, Draft: draft, Patch: in.Patch, VirtualNode: in.VirtualNode, NamespaceLabels: in.NamespaceLabels,
	})
	if err != nil {
		return nil, fmt.Errorf("evaluating the policies for the pod: %w", err)
	}
	forged := &Forged{Draft: draft, Decisions: result.Decisions, Warnings: result.Warnings, Denial: result.Denial}
	if result.Denial != nil {
		return forged, nil
	}
	if err := invariants.CheckPod(in.Local, draft, result.ShadowPod); err != nil {
		forged.Violation = violationMessage(err, result)
		return forged, nil
	}
	text := view.EncodeOffload(result.Decisions, view.DecisionsRoom(result.ShadowPod.Annotations))
	forged.ShadowPod = remote.SealPod(result.ShadowPod, in.Local, in.Origin, text)
	return forged, nil
}
