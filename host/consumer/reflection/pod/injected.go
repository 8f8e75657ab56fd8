package pod

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

// ReasonInjected is the reason of an event on a local pod whose remote pod has containers that it does not have.
const ReasonInjected = "ContainersInjected"

const (
	// endDeadline is the deadline, in seconds, of a remote pod in which only injected containers run.
	endDeadline = 1
	// refusedEnd stands for that deadline among the fields that were refused.
	refusedEnd = "endDeadline"
)

// reportInjected names the containers that only the remote pod has, with its first status.
func (o *observation) reportInjected() []engine.Action {
	names := local.InjectedContainers(&o.pod.Status, &o.local.Spec)
	if len(names) == 0 || len(o.local.Status.ContainerStatuses) > 0 {
		return nil
	}
	return []engine.Action{engine.RecordEvent{
		Type: engine.EventNormal, Reason: ReasonInjected,
		Message: "In cluster " + o.in.Facts.ProviderClusterID + " the pod has further containers: " + events.Cut(strings.Join(names, ", "), maxMessage/2) +
			". They do not count in its status, and end with its own containers.",
	}}
}

// endInjected ends the remote pod when the local pod's own containers have ended and injected ones run on. The deadline
// lets the kubelet end them, and keeps the pod with its logs. A ShadowPod without it would have its pod created again, and
// run again, after an eviction.
func (o *observation) endInjected(status *corev1.PodStatus) []engine.Action {
	if !podend.IsTerminal(status.Phase) || podend.IsTerminal(o.pod.Status.Phase) || !o.hasLiveShadowPod() || o.local.DeletionTimestamp != nil ||
		ptr.Deref(o.shadow.Spec.Pod.ActiveDeadlineSeconds, endDeadline+1) <= endDeadline {
		return nil
	}
	if left := remaining(o.memory.refusedAt, refusedRetry, o.in.Facts.Now); left > 0 && o.memory.refusedFields == refusedEnd {
		return []engine.Action{engine.Requeue{After: left, Reason: waitRefusedChange}}
	}
	return []engine.Action{engine.PatchRemoteSpec{
		Operations: []podupdate.Operation{{Op: "add", Path: shadowPodSpec + "/activeDeadlineSeconds", Value: endDeadline}},
		Refused: func(string) []engine.Action {
			o.memory.refusedFields, o.memory.refusedAt = refusedEnd, o.in.Facts.Now
			return []engine.Action{engine.Remember{Value: o.memory}, engine.Requeue{After: refusedRetry, Reason: waitRefusedChange}}
		},
	}}
}
