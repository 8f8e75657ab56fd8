package pod

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

// gateRemovedReason is the reason of a readiness gate whose condition was removed from the local
// pod. Kubernetes treats a gate without a condition as false.
const gateRemovedReason = "ConditionRemoved"

// localGates returns the conditions of readiness gates that a controller of the consumer has set.
// They are sent, and those of the remote pod do not replace them. All others belong to the
// provider. A gate stays the consumer's once its condition was sent.
func (o *observation) localGates() []corev1.PodCondition {
	gates := o.local.Spec.ReadinessGates
	if len(gates) == 0 || !remote.FollowsLocalPod(o.local) {
		return nil
	}
	var owned []corev1.PodCondition
	current, sent := podupdate.Gates(gates, o.local.Status.Conditions), o.sentGates()
	for i := range sent {
		if podupdate.FindCondition(current, sent[i].Type) == nil {
			owned = append(owned, o.removedGate(sent[i]))
		}
	}
	for i := range current {
		if podupdate.FindCondition(sent, current[i].Type) != nil || o.isSetLocally(&current[i]) {
			owned = append(owned, current[i])
		}
	}
	return podupdate.Gates(gates, owned) // sorted
}

// sentGates returns the conditions that were sent.
func (o *observation) sentGates() []corev1.PodCondition {
	if o.shadow == nil {
		return nil
	}
	return podupdate.DecodeGates(o.shadow.Annotations[podupdate.GatesAnnotation])
}

// removedGate returns what is sent for a gate that has lost its condition.
func (o *observation) removedGate(sent corev1.PodCondition) corev1.PodCondition {
	if sent.Reason == gateRemovedReason {
		return sent
	}
	return corev1.PodCondition{
		Type: sent.Type, Status: corev1.ConditionFalse, Reason: gateRemovedReason, LastTransitionTime: metav1.NewTime(o.in.Facts.Now.UTC()),
	}
}

// isSetLocally reports whether the local pod's condition of a gate is not the one that was
// mirrored from the remote pod. When the memory is lost, the later of two transitions decides.
func (o *observation) isSetLocally(condition *corev1.PodCondition) bool {
	var theirs *corev1.PodCondition
	if o.pod != nil {
		theirs = podupdate.FindCondition(o.pod.Status.Conditions, condition.Type)
	}
	if theirs != nil && podupdate.EqualGate(theirs, condition) {
		return false
	}
	if o.memory.knowsGates {
		mirrored := podupdate.FindCondition(podupdate.DecodeGates(o.memory.gates), condition.Type)
		return mirrored == nil || !podupdate.EqualGate(mirrored, condition)
	}
	switch {
	case condition.LastTransitionTime.IsZero():
		return true
	case theirs != nil:
		return condition.LastTransitionTime.After(theirs.LastTransitionTime.Time)
	case o.pod != nil:
		return condition.LastTransitionTime.After(o.pod.CreationTimestamp.Time)
	default:
		// A pod that has run may have the condition from an earlier remote pod.
		return len(o.local.Status.ContainerStatuses) == 0
	}
}

// rememberGates stores which conditions of a status are mirrored from the remote pod, if that is
// new.
func (o *observation) rememberGates(status *corev1.PodStatus, owned []corev1.PodCondition) []engine.Action {
	if len(o.local.Spec.ReadinessGates) == 0 {
		return nil
	}
	var mirrored []corev1.PodCondition
	for _, condition := range podupdate.Gates(o.local.Spec.ReadinessGates, status.Conditions) {
		if podupdate.FindCondition(owned, condition.Type) == nil {
			mirrored = append(mirrored, condition)
		}
	}
	text := podupdate.EncodeGates(mirrored)
	if o.memory.knowsGates && o.memory.gates == text {
		return nil
	}
	o.memory.knowsGates, o.memory.gates = true, text
	return []engine.Action{engine.Remember{Value: o.memory}}
}

// sendGates sends the conditions of readiness gates that are set in the consumer.
func (o *observation) sendGates(gates []corev1.PodCondition) []engine.Action {
	if !o.hasLiveShadowPod() || isFinished(o.local) || len(o.local.Spec.ReadinessGates) == 0 ||
		o.local.Labels[offloadingv1beta1.RemoteUnavailableLabel] == "true" {
		return nil
	}
	text := podupdate.EncodeGates(gates)
	if text == o.shadow.Annotations[podupdate.GatesAnnotation] {
		return nil
	}
	actions, isPaused := o.yield(o.memory.lastGates, text, "the readiness gates of the ShadowPod")
	if isPaused {
		return actions
	}
	value := &text
	if text == "" {
		value = nil
	}
	o.memory.lastGates = o.memory.lastGates.Wrote(text, o.in.Facts.Now)
	return append(actions,
		engine.PatchRemote{Annotations: map[string]*string{podupdate.GatesAnnotation: value}}, engine.Remember{Value: o.memory})
}

// yield returns what is done about another writer of a value in the provider, and whether the value is
// not written now. object names what that writer changes.
func (o *observation) yield(last engine.LastWrite, value, object string) (actions []engine.Action, isPaused bool) {
	pause, isDue := last.Pause(value, o.in.Facts.Now)
	if isDue {
		actions = append(actions, engine.Contested(o.in.Facts, object))
	}
	if pause > 0 {
		return append(actions, engine.Requeue{After: pause, Reason: waitMetadataConflict}), true
	}
	return actions, false
}
