package pod

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/invariants"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// ReasonDenied is the reason in the status of a local pod that a policy refused, and of
// the event that says so.
const ReasonDenied = "OffloadingDenied"

// Reasons of pods about which a policy gave no answer.
const (
	// ReasonPolicyFailed is the reason in the status of a local pod that waits because a
	// policy gave no valid answer, and of the event that says so.
	ReasonPolicyFailed = "PolicyFailed"
	// ReasonPolicySkipped is the reason of the event that says that a policy had no part in
	// a decision (failure policies Ignore and LastGood).
	ReasonPolicySkipped = "PolicySkipped"
)

// policyRetry is how soon a pod is tried again about which a policy gave no valid
// answer. When policies change or recover, it is tried at once.
const policyRetry = 30 * time.Second

// denial is a refusal that only a change of the policies or of the pod can lift: what the
// pod's status and an event say of it, and, unless empty, what an event says when the pod
// was offloaded before.
type denial struct{ eventType, reason, message, stays string }

func refused(message string) *denial {
	return &denial{eventType: engine.EventWarning, reason: ReasonDenied, message: message}
}

// denialOf is the denial of a policy, which may also want a pod to stay at home that is
// fine otherwise: that is told as the skip annotation of other objects is.
func denialOf(denied *chain.Denied, facts engine.Facts) *denial {
	if denied.Skip {
		return &denial{
			eventType: engine.EventNormal, reason: engine.ReasonReflectionDisabled, message: engine.NotReflected(facts, denied.Error()),
			stays: "Stays in cluster " + facts.ProviderClusterID + ", since no policy ends a pod that was offloaded: " + denied.Error(),
		}
	}
	return refused("Not offloaded: " + denied.Error())
}

// offload is row 10. The label of row 8 follows when the ShadowPod exists.
func (d *Definition) offload(ctx context.Context, s scene) ([]engine.Action, error) {
	shadow, denied, err := d.forge(ctx, s)
	if failure, ok := errors.AsType[*chain.PolicyError](err); ok && failure.Class != chain.Host {
		return d.wait(s, failure), nil
	}
	if err != nil {
		return nil, err
	}
	if denied != nil {
		status := local.RejectedPodStatus(&s.local.Status, corev1.PodPending, denied.reason, denied.message, s.in.Facts.Now)
		return append(setStatus(s.local, status), engine.RecordEvent{
			Type: denied.eventType, Reason: denied.reason, Message: denied.message,
		}), nil
	}
	s.memory.source = d.source(s)
	s.memory.wanted = fingerprint(shadow.object.Labels, shadow.object.Annotations)
	actions := []engine.Action{
		engine.Create{Object: shadow.object},
		engine.Remember{Value: s.memory},
		engine.Requeue{After: labelDelay, Reason: "for a status that takes the label along"},
	}
	if shadow.notice != "" {
		actions = append(actions, engine.RecordEvent{Type: engine.EventWarning, Reason: ReasonPolicySkipped, Message: shadow.notice})
	}
	return actions, nil
}

// wait tells the owner of a pod, in its status and in an event, which policy holds it up
// and who must act.
func (d *Definition) wait(s scene, failure *chain.PolicyError) []engine.Action {
	message := "Not offloaded: " + failure.Error()
	actions := []engine.Action{
		engine.RecordEvent{Type: engine.EventWarning, Reason: ReasonPolicyFailed, Message: message},
		engine.Requeue{After: policyRetry, Reason: "for the policy"},
	}
	if s.local.Status.Phase != "" && s.local.Status.Phase != corev1.PodPending {
		return actions // it has run: its status says more than this
	}
	status := local.RejectedPodStatus(&s.local.Status, corev1.PodPending, ReasonPolicyFailed, message, s.in.Facts.Now)
	return append(setStatus(s.local, status), actions...)
}

// forged is a ShadowPod that the policies have been asked about.
type forged struct {
	object *offloadingv1beta1.ShadowPod
	// decisions of the policies, as the object's annotation tells them.
	decisions []chain.Decision
	// notice says which policies had no part in it, for the pod's owner.
	notice string
}

// forge builds the ShadowPod: draft, policies, invariants, seal (pod flow, stage 4).
func (d *Definition) forge(ctx context.Context, s scene) (*forged, *denial, error) {
	patch, node := d.options.Situation()
	draft := remote.PodDraft(s.local, s.in.Facts.RemoteNamespace, d.options.Origin)
	result, err := view.OffloadPod(ctx, d.options.Evaluator, view.OffloadInput{
		Local: s.local, Draft: draft, Patch: patch, VirtualNode: node,
	})
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("asking the policies about the pod: %w", err)
	case result.Denial != nil:
		return nil, denialOf(result.Denial, s.in.Facts), nil
	}
	for _, warning := range result.Warnings {
		logr.FromContextOrDiscard(ctx).Info("A policy warns about the pod", "warning", warning)
	}
	if err := invariants.CheckPod(s.local, draft, result.ShadowPod); err != nil {
		return nil, refused(weakened(err, result)), nil
	}
	text := view.EncodeOffload(result.Decisions, view.DecisionsRoom(result.ShadowPod.Annotations))
	shadow := remote.SealPod(result.ShadowPod, s.local, d.options.Origin, text)
	return &forged{object: shadow, decisions: result.Decisions, notice: skipped(result.Decisions)}, nil, nil
}

// skipped says which policies failed and had no part in the decisions.
func skipped(decisions []chain.Decision) string {
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

// weakened says which policies made the pod less isolated than it may be, and how.
func weakened(err error, result *view.OffloadResult) string {
	who := "the policies"
	if broken, ok := errors.AsType[*invariants.Error](err); ok {
		who = view.Culprits(result.Decisions, broken.Causes())
	}
	return "Not offloaded: " + who + " broke what no policy may change: " + err.Error() +
		"; the author must act, an operator can narrow spec.allow.writes or disable the OffloadingPolicy meanwhile"
}

// converge is rows 11 and 12: labels and annotations follow the local pod. The policies
// are asked only when something they depend on has changed.
func (d *Definition) converge(s scene, before []engine.Action) []engine.Action {
	if s.shadow.DeletionTimestamp != nil || s.local.Labels[offloadingv1beta1.RemoteUnavailableLabel] == "true" {
		return nil
	}
	for _, action := range before {
		if remembered, ok := action.(engine.Remember); ok {
			s.memory, _ = remembered.Value.(memory)
		}
	}
	source := d.source(s)
	var events []engine.Action
	if s.memory.source == source {
		if s.memory.wanted == fingerprint(s.shadow.Labels, s.shadow.Annotations) {
			return nil
		}
		pause, reported := s.memory.contest.Pause(s.in.Facts.Now)
		if reported {
			events = append(events, engine.Contested(s.in.Facts, "labels or annotations of the ShadowPod"))
		}
		if pause > 0 {
			return append(events, engine.Requeue{After: pause, Reason: "before labels and annotations are reverted again"})
		}
	}
	return append(events, engine.Query{Run: func(ctx context.Context) ([]engine.Action, error) {
		return d.updateMetadata(ctx, s, source), nil
	}})
}

// updateMetadata asks the policies for the labels and annotations of a ShadowPod. source is
// the hash of what they depend on.
func (d *Definition) updateMetadata(ctx context.Context, s scene, source uint64) []engine.Action {
	want, denied, err := d.forge(ctx, s)
	switch {
	case err != nil:
		return []engine.Action{
			engine.RecordEvent{Type: engine.EventWarning, Reason: engine.ReasonFailedReflection, Message: "Labels and annotations are not updated: " + err.Error()},
			engine.Requeue{After: convergeRetry, Reason: "for the policies"},
		}
	case denied != nil:
		// The pod runs: what a policy thinks of it since does not take its labels away.
		s.memory.source, s.memory.wanted = source, fingerprint(s.shadow.Labels, s.shadow.Annotations)
		actions := []engine.Action{engine.Remember{Value: s.memory}}
		if denied.stays != "" {
			actions = append(actions, engine.RecordEvent{Type: denied.eventType, Reason: denied.reason, Message: denied.stays})
		}
		return actions
	}
	patch := engine.PatchRemote{
		Labels:      difference(s.shadow.Labels, want.object.Labels),
		Annotations: difference(s.shadow.Annotations, want.object.Annotations),
	}
	tell(&patch, s.shadow.Annotations[remote.DecisionsAnnotation], want)
	return s.patchMetadata(source, fingerprint(want.object.Labels, want.object.Annotations), patch)
}

// tell has a patch write down who decides about labels and annotations now, beside who
// decided about the spec. A patch that only names another version which does the same is
// not made.
func tell(patch *engine.PatchRemote, have string, want *forged) {
	text := view.EncodeMetadata(have, want.decisions, view.DecisionsRoom(want.object.Annotations))
	if text == have {
		return
	}
	if patch.Annotations == nil {
		patch.Annotations = map[string]*string{}
	}
	patch.Annotations[remote.DecisionsAnnotation] = nil
	if text != "" {
		patch.Annotations[remote.DecisionsAnnotation] = &text
	}
}

// patchMetadata patches labels and annotations of the ShadowPod. The engine stops at the
// first action that fails, so a patch that failed is not remembered and is sent again.
func (s scene) patchMetadata(source, wanted uint64, patch engine.PatchRemote) []engine.Action {
	var actions []engine.Action
	again := s.memory.source == source && s.memory.wanted == wanted
	if len(patch.Labels)+len(patch.Annotations) > 0 {
		actions = append(actions, patch)
		s.memory.contest = s.memory.contest.Wrote(again, s.in.Facts.Now)
	}
	s.memory.source, s.memory.wanted = source, wanted
	return append(actions, engine.Remember{Value: s.memory})
}

// source is the hash of everything that labels and annotations are forged from.
func (d *Definition) source(s scene) uint64 {
	return fingerprint(s.local.Labels, s.local.Annotations) ^ (s.in.Facts.PolicyRevision+1)*0x9e3779b97f4a7c15
}

// notConverged are keys that are not ours to compare on an existing ShadowPod: what the
// provider adds (T21), and who decided, of which [tell] knows more than whether it differs.
func notConverged(key string) bool {
	switch key {
	case offloadingv1beta1.CreatorUserLabel, offloadingv1beta1.ManagedByLabel, remote.DecisionsAnnotation:
		return true
	default:
		return false
	}
}

// difference returns what turns one map into another, nil values for removed keys.
func difference(have, want map[string]string) map[string]*string {
	var patch map[string]*string
	set := func(key string, value *string) {
		if patch == nil {
			patch = map[string]*string{}
		}
		patch[key] = value
	}
	for key := range have {
		if _, stays := want[key]; !stays && !notConverged(key) {
			set(key, nil)
		}
	}
	for key, value := range want {
		if current, present := have[key]; (!present || current != value) && !notConverged(key) {
			set(key, &value)
		}
	}
	return patch
}

// fingerprint hashes labels and annotations, whatever their order.
func fingerprint(labels, annotations map[string]string) uint64 {
	var sum uint64
	for i, m := range []map[string]string{labels, annotations} {
		for key, value := range m {
			if notConverged(key) {
				continue
			}
			h := fnv.New64a()
			for _, part := range []string{key, value} {
				h.Write([]byte(part))
				h.Write([]byte{byte(i)})
			}
			sum += h.Sum64()
		}
	}
	return sum
}
