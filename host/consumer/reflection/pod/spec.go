package pod

import (
	"context"
	"strings"
	"time"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

const (
	// ReasonUpdateRefused is the reason of an event on a local pod whose change does not reach
	// the remote pod.
	ReasonUpdateRefused = "UpdateRefused"
	// refusedRetry is how soon a change that the provider or a policy refuses is tried again.
	refusedRetry = 5 * time.Minute
	// shadowPodSpec is the path of the pod spec in a ShadowPod.
	shadowPodSpec = "/spec/pod"
)

// sentFieldsPath is the path of the annotation with the fields that were sent.
var sentFieldsPath = "/metadata/annotations/" + strings.ReplaceAll(podupdate.SentAnnotation, "/", "~1")

// syncSpec sends what has changed in the local pod's spec since the ShadowPod was made from it,
// of the fields that may change. The second result is false if nothing is to be sent
// now.
func (d *Definition) syncSpec(o observation) ([]engine.Action, bool) {
	sent, recorded := o.shadow.Annotations[podupdate.SentAnnotation]
	if !recorded || !remote.FollowsLocalPod(o.local) || isFinished(o.local) {
		return nil, false
	}
	fields := podupdate.FieldsOf(&o.local.Spec)
	changed := fields.Changed(podupdate.Decode(sent))
	if len(changed) == 0 {
		return nil, false
	}
	if o.memory.refusedFields == fields.Encode() {
		if left := remaining(o.memory.refusedAt, refusedRetry, o.in.Facts.Now); left > 0 {
			return []engine.Action{engine.Requeue{After: left, Reason: waitRefusedChange}}, false
		}
	}
	actions, isPaused := o.yield(o.memory.lastFields, fields.Encode(), "annotation "+podupdate.SentAnnotation+" of the ShadowPod")
	if isPaused {
		return actions, false
	}
	return append(actions, query(func(ctx context.Context) ([]engine.Action, error) {
		return d.updateSpec(ctx, o, fields, changed), nil
	})...), true
}

// updateSpec patches the changed fields of the ShadowPod to what the policies answer.
func (d *Definition) updateSpec(ctx context.Context, o observation, fields podupdate.Fields, changed []string) []engine.Action {
	refuse := func(message string) []engine.Action {
		o.memory.refusedFields, o.memory.refusedAt = fields.Encode(), o.in.Facts.Now
		return []engine.Action{
			engine.Remember{Value: o.memory},
			engine.RecordEvent{
				Type: engine.EventWarning, Reason: ReasonUpdateRefused,
				Message: "The change of the pod (" + strings.Join(changed, ", ") + ") does not reach cluster " + o.in.Facts.ProviderClusterID +
					", where the pod keeps its spec: " + message,
			},
			// Labels and annotations are decided again now, the spec after refusedRetry.
			engine.Requeue{After: time.Second, Reason: waitRefusedChange},
		}
	}
	// An ephemeral container shares the tokens of the remote pod, so it gets the API server of the other
	// containers, whose address may have changed since.
	origin := d.options.Origin
	origin.APIServer = remote.APIServerOf(&o.shadow.Spec.Pod)
	desired, denied, err := d.forge(ctx, o, origin)
	switch {
	case err != nil:
		return refuse(err.Error())
	case denied != nil:
		return refuse(denied.message)
	}
	var operations []podupdate.Operation
	for _, step := range podupdate.Compare(&o.shadow.Spec.Pod, &desired.shadow.Spec.Pod, changed, shadowPodSpec) {
		operations = append(operations, step.Operations...)
	}
	operations = append(operations, podupdate.Operation{Op: "add", Path: sentFieldsPath, Value: fields.Encode()})
	o.memory.lastFields = o.memory.lastFields.Wrote(fields.Encode(), o.in.Facts.Now)
	return []engine.Action{engine.PatchRemoteSpec{
		Operations: operations, Accepted: []engine.Action{engine.Remember{Value: o.memory}}, Refused: refuse,
	}}
}
