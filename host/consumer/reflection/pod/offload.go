package pod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// Reasons of events and of the status of local pods that policies decide about.
const (
	// ReasonDenied: a policy denies the offloading of the pod.
	ReasonDenied = "OffloadingDenied"
	// ReasonPolicyFailed: the pod waits because a policy gives no valid answer.
	ReasonPolicyFailed = "PolicyFailed"
	// ReasonPolicySkipped: a policy failed, and its failure policy (Ignore or LastGood) lets
	// the pod pass without it. Events only.
	ReasonPolicySkipped = "PolicySkipped"
	// ReasonNamespaceDiffers: containers read the name of the remote namespace, which is another. Events
	// only.
	ReasonNamespaceDiffers = "NamespaceNameDiffers"
	// ReasonTokensLeftOut: the remote pod lacks tokens for other audiences. Events only.
	ReasonTokensLeftOut = "TokensLeftOut"
)

// tokens is the name of the resource with the tokens of pods.
const tokens = "serviceaccount"

// policyRetry is how soon a pod is tried again when a policy gave no valid answer. The engine
// tries it at once when policies change.
const policyRetry = 30 * time.Second

// denial is why a pod is not offloaded until policies or the pod change.
type denial struct {
	// eventType, reason and message are those of an event and of the pod's status.
	eventType, reason, message string
	// stays is the message of the event on a pod that was offloaded before; empty for none.
	stays string
}

// newDenial returns the denial by a policy. A policy that skips a pod does not object to it,
// so its event is Normal, as for other kinds.
func newDenial(denied *chain.Denied, facts engine.Facts) *denial {
	if denied.Skip {
		return &denial{
			eventType: engine.EventNormal, reason: engine.ReasonReflectionDisabled, message: engine.NotReflected(facts, denied.Error()),
			stays: "The pod stays in cluster " + facts.ProviderClusterID + ": policies do not end pods that are offloaded already: " + denied.Error(),
		}
	}
	return newWarning("Not offloaded: " + denied.Error())
}

func newWarning(message string) *denial {
	return &denial{eventType: engine.EventWarning, reason: ReasonDenied, message: message}
}

// offload creates the ShadowPod (row 10). The label of row 8 follows when the ShadowPod exists.
func (d *Definition) offload(ctx context.Context, o observation) ([]engine.Action, error) {
	if wait := d.waitAfterEnds(o); wait != nil {
		return wait, nil
	}
	// Other forges take no address: the spec of a pod is sent once.
	origin, err := d.originOf(o.local)
	if err != nil {
		return nil, err
	}
	desired, denied, err := d.forge(ctx, o, origin)
	if failure, ok := errors.AsType[*chain.PolicyError](err); ok && failure.Class != chain.Host {
		return d.waitForPolicy(o, failure), nil
	}
	if err != nil {
		return nil, err
	}
	if denied != nil {
		status := local.RejectedPodStatus(&o.local.Status, corev1.PodPending, denied.reason, denied.message, o.in.Facts.Now)
		return append(patchStatus(o.local, status), engine.RecordEvent{
			Type: denied.eventType, Reason: denied.reason, Message: denied.message,
		}), nil
	}
	desired.shadow.Spec.Pod.EphemeralContainers = nil // a pod cannot be created with them
	if gates := podupdate.EncodeGates(o.localGates()); gates != "" {
		desired.shadow.Annotations[podupdate.GatesAnnotation] = gates
	}
	o.memory.knowsGates, o.memory.begunAt = true, o.in.Facts.Now
	o.memory.sourceHash = d.hashSource(o)
	o.memory.metadataHash = hashMetadata(desired.shadow.Labels, desired.shadow.Annotations)
	actions := []engine.Action{
		// Its kubelet reports a failure, and waits, if the tokens are not there.
		engine.DecideFirst{Resource: tokens},
		engine.Create{Object: desired.shadow, Refused: o.reportShadowPodRefusal},
		engine.Remember{Value: o.memory},
		engine.Requeue{After: labelDelay, Reason: waitStatusForLabel},
	}
	if found := remote.NamespaceReferences(&desired.shadow.Spec.Pod, o.local, o.in.Facts.RemoteNamespace, origin); len(found) > 0 {
		actions = append(actions, engine.RecordEvent{
			Type: engine.EventWarning, Reason: ReasonNamespaceDiffers, Message: DescribeNamespaceReferences(found, o.in.Facts.RemoteNamespace),
		})
	}
	if left := remote.TokensLeftOut(o.local, origin); len(left) > 0 {
		actions = append(actions, engine.RecordEvent{
			Type: engine.EventWarning, Reason: ReasonTokensLeftOut, Message: DescribeTokensLeftOut(left, o.in.Facts.ProviderClusterID),
		})
	}
	if desired.warning != "" {
		actions = append(actions, engine.RecordEvent{Type: engine.EventWarning, Reason: ReasonPolicySkipped, Message: desired.warning})
	}
	return actions, nil
}

// DescribeNamespaceReferences says where containers read the name of the remote namespace.
func DescribeNamespaceReferences(found []string, remoteNamespace string) string {
	return "Containers read the namespace " + remoteNamespace + " of the remote pod (" + strings.Join(found, ", ") +
		"). Where they need the name of this cluster, write it instead of metadata.namespace, or offload the namespace with EnforceSameName."
}

// DescribeTokensLeftOut says which tokens a remote pod lacks, and who can send them.
func DescribeTokensLeftOut(left []remote.LeftOutToken, providerClusterID string) string {
	var parts []string
	for _, token := range left {
		parts = append(parts, token.String())
	}
	return "In cluster " + providerClusterID + " " + strings.Join(parts, ", and ") +
		": tokens of service accounts do not leave this cluster. An operator can send those for other audiences with the chart's value virtualKubelet.apiServerAccess.audienceTokens."
}

// waitForPolicy reports, in the pod's status and in an event, which policy fails.
func (d *Definition) waitForPolicy(o observation, failure *chain.PolicyError) []engine.Action {
	message := "Not offloaded: " + failure.Error()
	actions := []engine.Action{
		engine.RecordEvent{Type: engine.EventWarning, Reason: ReasonPolicyFailed, Message: message},
		engine.Requeue{After: policyRetry, Reason: waitPolicy},
	}
	if o.local.Status.Phase != "" && o.local.Status.Phase != corev1.PodPending {
		return actions // the pod has run: its last status stays
	}
	status := local.RejectedPodStatus(&o.local.Status, corev1.PodPending, ReasonPolicyFailed, message, o.in.Facts.Now)
	return append(patchStatus(o.local, status), actions...)
}

// originOf returns the origin of a pod, with the API server that its remote pod reaches.
func (d *Definition) originOf(pod *corev1.Pod) (remote.Origin, error) {
	if d.options.APIServer == nil {
		return d.options.Origin, nil
	}
	return d.options.Origin.ForPod(pod, d.options.APIServer)
}

// desiredShadowPod is a ShadowPod after the policies.
type desiredShadowPod struct {
	shadow    *offloadingv1beta1.ShadowPod
	decisions []chain.Decision
	// warning is the message of an event when policies were skipped; empty for none.
	warning string
}

// forge builds the ShadowPod with the facts of the virtual node (stage 4).
func (d *Definition) forge(ctx context.Context, o observation, origin remote.Origin) (*desiredShadowPod, *denial, error) {
	if err := quantity.CheckAll(&o.local.Spec); err != nil {
		return nil, newWarning("Not offloaded: spec." + err.Error() + ". Create the pod with other amounts."), nil
	}
	patch, node := d.options.VirtualNode()
	forged, err := Forge(ctx, ForgeInput{
		Local: o.local, RemoteNamespace: o.in.Facts.RemoteNamespace, Origin: origin,
		Evaluator: d.options.Evaluator, Patch: patch, VirtualNode: node,
	})
	switch {
	case err != nil:
		return nil, nil, err
	case forged.Denial != nil:
		return nil, newDenial(forged.Denial, o.in.Facts), nil
	}
	for _, warning := range forged.Warnings {
		logr.FromContextOrDiscard(ctx).Info("A policy warns about the pod", "warning", warning)
	}
	if forged.Violation != "" {
		return nil, newWarning(forged.Violation), nil
	}
	return &desiredShadowPod{shadow: forged.ShadowPod, decisions: forged.Decisions, warning: skippedPolicies(forged.Decisions)}, nil, nil
}

// skippedPolicies lists the policies that failed and were not applied; empty for none.
func skippedPolicies(decisions []chain.Decision) string {
	var parts []string
	for i := range decisions {
		switch decision := &decisions[i]; {
		case decision.Ignored != "":
			parts = append(parts, fmt.Sprintf("policy %q (module %s, %s) was skipped: %s",
				decision.Binding, decision.Module, chain.ShortDigest(decision.Digest), decision.Ignored))
		case decision.FellBack != "":
			parts = append(parts, fmt.Sprintf("the previous version of policy %q (%s) decided: %s",
				decision.Binding, chain.ShortDigest(decision.Digest), decision.FellBack))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Offloaded, but " + strings.Join(parts, "; ")
}

// violationMessage names the policies that violated an invariant.
func violationMessage(err error, result *view.OffloadResult) string {
	policies := "the policies"
	if violation, ok := errors.AsType[*invariants.Error](err); ok {
		policies = view.ChangedBy(result.Decisions, violation.Causes())
	}
	return "Not offloaded: " + policies + " violated an invariant: " + err.Error() +
		". The author of the policy must correct it; until then an operator can narrow spec.allow.writes or disable the OffloadingPolicy."
}
