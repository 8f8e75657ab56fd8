package pod

import (
	"context"
	"hash/fnv"
	"time"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// metadataRetry is how soon labels and annotations are tried again when the policies fail.
const metadataRetry = time.Minute

// syncMetadata updates labels and annotations of the ShadowPod (rows 11 and 12). It evaluates
// the policies only when their input has changed.
func (d *Definition) syncMetadata(o observation) []engine.Action {
	switch {
	case !o.hasLiveShadowPod():
		return keep(keepTerminating)
	case o.local.Labels[offloadingv1beta1.RemoteUnavailableLabel] == "true": // row 11
		return keep(keepUnavailable)
	}
	events, isSending := d.syncSpec(o)
	if isSending {
		return events
	}
	sourceHash := d.hashSource(o)
	if o.memory.sourceHash == sourceHash {
		if o.memory.metadataHash == hashMetadata(o.shadow.Labels, o.shadow.Annotations) {
			return append(events, keep(keepMetadataUpToDate)...)
		}
		pause, reported := o.memory.contest.Pause(o.in.Facts.Now)
		if reported {
			events = append(events, engine.Contested(o.in.Facts, "labels or annotations of the ShadowPod"))
		}
		if pause > 0 {
			return append(events, engine.Requeue{After: pause, Reason: waitMetadataConflict})
		}
	}
	return append(events, query(func(ctx context.Context) ([]engine.Action, error) {
		return d.updateMetadata(ctx, o, sourceHash), nil
	})...)
}

// updateMetadata patches labels and annotations to what the policies answer. sourceHash is the
// hash of their input.
func (d *Definition) updateMetadata(ctx context.Context, o observation, sourceHash uint64) []engine.Action {
	desired, denied, err := d.forge(ctx, o, d.options.Origin)
	switch {
	case err != nil:
		return []engine.Action{
			engine.RecordEvent{Type: engine.EventWarning, Reason: engine.ReasonFailedReflection, Message: "Labels and annotations are not updated: " + err.Error()},
			engine.Requeue{After: metadataRetry, Reason: waitPolicy},
		}
	case denied != nil:
		// A pod that is offloaded keeps its labels when a policy denies it later.
		o.memory.sourceHash, o.memory.metadataHash = sourceHash, hashMetadata(o.shadow.Labels, o.shadow.Annotations)
		actions := append(keep(keepDeniedLater), engine.Remember{Value: o.memory})
		if denied.stays != "" {
			actions = append(actions, engine.RecordEvent{Type: denied.eventType, Reason: denied.reason, Message: denied.stays})
		}
		return actions
	}
	patch := engine.PatchRemote{
		Labels:      diffMetadata(o.shadow.Labels, desired.shadow.Labels),
		Annotations: diffMetadata(o.shadow.Annotations, desired.shadow.Annotations),
	}
	recordDecisions(&patch, o.shadow.Annotations[remote.DecisionsAnnotation], desired)
	return o.patchMetadata(sourceHash, hashMetadata(desired.shadow.Labels, desired.shadow.Annotations), patch)
}

// recordDecisions adds to a patch which policies decided about labels and annotations, unless
// only the version of a policy changed.
func recordDecisions(patch *engine.PatchRemote, current string, desired *desiredShadowPod) {
	text := view.EncodeMetadata(current, desired.decisions, view.DecisionsRoom(desired.shadow.Annotations))
	if text == current {
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

// patchMetadata patches labels and annotations of the ShadowPod. The engine stops at the first
// action that fails, so a patch that failed is not remembered and is sent again.
func (o *observation) patchMetadata(sourceHash, metadataHash uint64, patch engine.PatchRemote) []engine.Action {
	var actions []engine.Action
	again := o.memory.sourceHash == sourceHash && o.memory.metadataHash == metadataHash
	if len(patch.Labels)+len(patch.Annotations) > 0 {
		actions = append(actions, patch)
		o.memory.contest = o.memory.contest.Wrote(again, o.in.Facts.Now)
	} else {
		actions = keep(keepMetadataUpToDate)
	}
	o.memory.sourceHash, o.memory.metadataHash = sourceHash, metadataHash
	return append(actions, engine.Remember{Value: o.memory})
}

// hashSource hashes everything that labels and annotations are built from.
func (d *Definition) hashSource(o observation) uint64 {
	return hashMetadata(o.local.Labels, o.local.Annotations) ^ (o.in.Facts.PolicyRevision+1)*0x9e3779b97f4a7c15
}

// isIgnoredKey reports whether a key of an existing ShadowPod is not compared: the provider
// adds it, or it records decisions, which [recordDecisions] compares, or the fields and
// conditions that were sent, which [Definition.syncSpec] and [observation.sendGates] compare.
func isIgnoredKey(key string) bool {
	switch key {
	case offloadingv1beta1.CreatorUserLabel, offloadingv1beta1.ManagedByLabel, remote.DecisionsAnnotation, podupdate.SentAnnotation,
		podupdate.GatesAnnotation:
		return true
	default:
		return false
	}
}

// diffMetadata returns the patch from one map to another; nil removes a key.
func diffMetadata(current, desired map[string]string) map[string]*string {
	var patch map[string]*string
	set := func(key string, value *string) {
		if patch == nil {
			patch = map[string]*string{}
		}
		patch[key] = value
	}
	for key := range current {
		if _, stays := desired[key]; !stays && !isIgnoredKey(key) {
			set(key, nil)
		}
	}
	for key, value := range desired {
		if existing, present := current[key]; (!present || existing != value) && !isIgnoredKey(key) {
			set(key, &value)
		}
	}
	return patch
}

// hashMetadata hashes labels and annotations, in any order.
func hashMetadata(labels, annotations map[string]string) uint64 {
	var sum uint64
	for i, m := range []map[string]string{labels, annotations} {
		for key, value := range m {
			if isIgnoredKey(key) {
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
