package pod

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/apitime"
	"github.com/longshore-dev/longshore/host/kit/events"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

// ReasonReplaced is the reason of an event on a local pod whose remote pod is another one than
// before, and of the conditions of one that is not ready because the provider replaces its remote pod.
const ReasonReplaced = "RemotePodReplaced"

// replacedQuiet is how long a pod has no further event of that reason: a provider may replace it in a loop.
const replacedQuiet = 10 * time.Minute

// ReasonRefused is the reason of an event and of the status of a local pod when the provider
// cannot create the remote pod.
const ReasonRefused = "RemotePodRefused"

// maxReason and maxMessage bound what the provider writes about a ShadowPod, in bytes. An event has room for
// maxMessage.
const (
	maxReason  = 128
	maxMessage = 1024
)

// mirrorStatus writes the status of the remote pod to the local pod (row 13).
func (d *Definition) mirrorStatus(o observation) []engine.Action {
	switch {
	case o.pod != nil:
		return d.mirrorRemotePod(o)
	case o.in.Facts.IsEnding && o.local.DeletionTimestamp == nil && !isFinished(o.local):
		return o.reportEndingNamespace()
	case o.shadow == nil:
		return keep(keepNoRemoteObject)
	case isFinished(o.local):
		return keep(keepLastStatus)
	case podend.IsTerminal(o.shadow.Status.Phase):
		status := local.RejectedPodStatus(&o.local.Status, o.shadow.Status.Phase,
			offloadingv1beta1.RemotePodTerminatedReason, o.remoteMessage(), o.in.Facts.Now)
		return append(d.noteReportedEnd(o, status.Phase, ""), patchStatus(o.local, status)...)
	case o.shadow.Status.Reason != "" && o.hasLiveShadowPod() && o.local.DeletionTimestamp == nil:
		return o.reportRefusal()
	case o.in.Facts.RemoteUnknown, o.in.IsDependentLost, o.local.DeletionTimestamp != nil:
		return keep(keepNoRemotePod)
	default:
		return o.reportMissing()
	}
}

// reportMissing reports that the remote pod is gone, or does not exist yet: the provider creates another one.
func (o *observation) reportMissing() []engine.Action {
	status := o.notReadyNow(ReasonReplaced)
	if quantity.Equal(&o.local.Status, status) {
		return keep(keepNoRemotePod)
	}
	return patchStatus(o.local, status)
}

// reportEndingNamespace reports that the provider deletes the remote namespace, in which nothing of the pod
// is left.
func (o *observation) reportEndingNamespace() []engine.Action {
	const reason = offloadingv1beta1.RemoteNamespaceTerminatingReason
	message := "Cluster " + o.in.Facts.ProviderClusterID + " deletes namespace " + o.in.Facts.RemoteNamespace +
		", and the pod in it, although it is requested. The pod runs again once the namespace is created again. Ask the administrator of that cluster."
	return append(o.patchWaitingStatus(reason, message), engine.RecordEvent{Type: engine.EventWarning, Reason: reason, Message: message})
}

func (d *Definition) mirrorRemotePod(o observation) []engine.Action {
	restarts := countRestarts(o.memory, o.local, o.pod)
	var actions []engine.Action
	if o.memory.remoteUID != o.pod.UID || o.memory.restarts != restarts {
		if o.memory.remoteUID != "" && o.memory.remoteUID != o.pod.UID {
			actions = append(actions, engine.RecordEvent{
				Type: engine.EventWarning, Reason: ReasonReplaced, Quiet: replacedQuiet,
				Message: "Cluster " + o.in.Facts.ProviderClusterID + " has replaced the remote pod: its containers begin anew. See the events there, or ask its administrator why.",
			})
		}
		o.memory.remoteUID, o.memory.restarts = o.pod.UID, restarts
		actions = append(actions, engine.Remember{Value: o.memory})
	}
	// The local pod gets another remote pod, also when the provider deletes the ShadowPod too.
	if o.local.DeletionTimestamp == nil && podend.ByDeletion(o.pod, o.reportedPhase()) {
		return append(actions, patchStatus(o.local, replacedStatus(&o.local.Status, &o.pod.Status))...)
	}
	gates := o.localGates()
	status := local.PodStatus(local.PodStatusInput{
		Local: o.local, Remote: o.pod, NodeIP: o.in.Facts.NodeIP, ExtraRestarts: restarts,
		DisableIPReflection: d.options.DisableIPReflection, MapIP: d.options.MapIP, Now: o.in.Facts.Now,
		Unknown: o.in.Facts.RemoteUnknown, LocalGates: gates, HasCurrentSpec: o.hasCurrentSpec(),
	})
	restoreLocalFields(status, &o.local.Status)
	if o.local.DeletionTimestamp == nil && o.pod.DeletionTimestamp != nil && !podend.IsTerminal(status.Phase) {
		status = o.leavingStatus(status)
	}
	if reportsNothing(&o.local.Status, status) {
		return append(actions, engine.Keep{Reason: keepNothingReported})
	}
	actions = append(actions, d.noteReportedEnd(o, status.Phase, status.Reason)...)
	actions = append(actions, o.reportInjected()...)
	actions = append(actions, patchStatus(o.local, status)...)
	actions = append(actions, o.endInjected(status)...)
	actions = append(actions, o.rememberGates(status, gates)...)
	if o.waitsForReadiness() {
		actions = append(actions, engine.RefreshRemote{})
	}
	return actions
}

// hasCurrentSpec reports whether the remote pod is known to have the local pod's current spec, of
// the fields that may change. It is not known of pods that are not updated.
func (o *observation) hasCurrentSpec() bool {
	// Providers without generations need no answer.
	if o.pod.Status.ObservedGeneration == 0 || o.shadow == nil || o.local.DeletionTimestamp != nil && o.pod.DeletionTimestamp == nil {
		return false
	}
	sent, recorded := o.shadow.Annotations[podupdate.SentAnnotation]
	return recorded && podupdate.IsRecorded(&o.local.Spec, sent) &&
		podupdate.IsRecorded(&o.shadow.Spec.Pod, o.pod.Annotations[podupdate.AppliedAnnotation])
}

// remoteMessage returns the message of the local status, unless this package wrote it.
func (o *observation) remoteMessage() string {
	switch o.local.Status.Reason {
	case ReasonRefused, ReasonDenied, offloadingv1beta1.RemoteNamespaceTerminatingReason, ReasonPolicyFailed, ReasonEndedByProvider, offloadingv1beta1.OffloadingBackOffReason, local.DaemonSetNotOffloadedReason:
		return ""
	default:
		return o.local.Status.Message
	}
}

// waitsForReadiness reports whether the local pod would be ready if the remote pod still is
// what it was before an outage of the link. While the node is marked unavailable, it would not.
func (o *observation) waitsForReadiness() bool {
	return o.in.Facts.RemoteUnknown && o.local.Labels[offloadingv1beta1.RemoteUnavailableLabel] != "true" &&
		!local.IsReady(&o.local.Status) && local.IsReady(&o.pod.Status)
}

// reportedPhase returns the phase in the status of the ShadowPod. A terminal phase is final.
func (o *observation) reportedPhase() corev1.PodPhase {
	if o.shadow == nil {
		return ""
	}
	return o.shadow.Status.Phase
}

// reportRefusal reports on the local pod why the provider cannot create the remote pod. The
// provider keeps trying. A pod that has run keeps its phase, but is not ready.
func (o *observation) reportRefusal() []engine.Action {
	message := events.Cut("Cluster "+o.in.Facts.ProviderClusterID+" cannot create the pod ("+events.Cut(o.shadow.Status.Reason, maxReason)+"): "+o.shadow.Status.Message, maxMessage)
	return append(o.patchWaitingStatus(ReasonRefused, message), engine.RecordEvent{Type: engine.EventWarning, Reason: ReasonRefused, Message: message})
}

// reportShadowPodRefusal reports on the local pod why the provider refuses the ShadowPod: its quota,
// a policy or a webhook. The engine records the event, and tries again.
func (o *observation) reportShadowPodRefusal(cause string) []engine.Action {
	return o.patchWaitingStatus(ReasonRefused, events.Cut("Cluster "+o.in.Facts.ProviderClusterID+" refuses the pod: "+cause, maxMessage))
}

// patchWaitingStatus reports why a pod has no remote pod.
func (o *observation) patchWaitingStatus(reason, message string) []engine.Action {
	status := o.notReadyNow(reason)
	status.Reason, status.Message = reason, message
	return patchStatus(o.local, status)
}

// notReadyNow returns the local status, in which the pod is not ready from now on.
func (o *observation) notReadyNow(reason string) *corev1.PodStatus {
	return notReadyStatus(&o.local.Status, reason, func(corev1.PodConditionType) *metav1.Time {
		return ptr.To(metav1.NewTime(o.in.Facts.Now.Truncate(time.Second)))
	})
}

// leavingStatus returns a status in which the pod is not ready, because the provider deletes the remote pod: its
// containers may go on for their grace period, and a deleted pod gets no new connections.
func (o *observation) leavingStatus(status *corev1.PodStatus) *corev1.PodStatus {
	reason := ReasonReplaced
	if o.in.Facts.IsEnding {
		reason = offloadingv1beta1.RemoteNamespaceTerminatingReason
	}
	// The deletion timestamp is when the grace period ends.
	grace := min(max(ptr.Deref(o.pod.DeletionGracePeriodSeconds, 0), 0), math.MaxInt32)
	since := o.pod.DeletionTimestamp.Add(-time.Duration(grace) * time.Second)
	return notReadyStatus(status, reason, func(corev1.PodConditionType) *metav1.Time {
		return ptr.To(apitime.Bound(metav1.NewTime(since)))
	})
}

// replacedStatus returns the local status while the provider evicts the remote pod and creates
// another. The pod is not ready. It does not take the terminal phase of the evicted pod, which
// would end the local pod.
func replacedStatus(current, remote *corev1.PodStatus) *corev1.PodStatus {
	return notReadyStatus(current, ReasonReplaced, func(conditionType corev1.PodConditionType) *metav1.Time {
		for i := range remote.Conditions {
			if remote.Conditions[i].Type == conditionType && remote.Conditions[i].Status == corev1.ConditionFalse {
				return ptr.To(apitime.Bound(remote.Conditions[i].LastTransitionTime))
			}
		}
		return nil
	})
}

// notReadyStatus returns a copy of a status in which neither the pod nor a container is ready.
// transitionTime returns the time of the transition of a condition, nil to keep the time.
func notReadyStatus(current *corev1.PodStatus, reason string, transitionTime func(corev1.PodConditionType) *metav1.Time) *corev1.PodStatus {
	status := current.DeepCopy()
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type != corev1.PodReady && condition.Type != corev1.ContainersReady || condition.Status != corev1.ConditionTrue {
			continue
		}
		condition.Status, condition.Reason = corev1.ConditionFalse, reason
		if at := transitionTime(condition.Type); at != nil {
			condition.LastTransitionTime = *at
		}
	}
	// An init container that runs is a sidecar; one that completed stays ready.
	for _, containers := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range containers {
			if containers[i].State.Terminated == nil {
				containers[i].Ready = false
			}
		}
	}
	return status
}

// restoreLocalFields restores the fields that belong to the consumer. The API server rejects
// another QoS class (policies and provider defaults may change resources) and a nominated node
// of a bound pod. Resource claims are written by the consumer's controllers.
func restoreLocalFields(status, current *corev1.PodStatus) {
	status.QOSClass = current.QOSClass
	status.NominatedNodeName = current.NominatedNodeName
	status.ResourceClaimStatuses = current.ResourceClaimStatuses
	status.ExtendedResourceClaimStatus = current.ExtendedResourceClaimStatus
	status.NodeAllocatableResourceClaimStatuses = current.NodeAllocatableResourceClaimStatuses
}

// patchStatus patches the status if it differs.
func patchStatus(pod *corev1.Pod, status *corev1.PodStatus) []engine.Action {
	if quantity.Equal(&pod.Status, status) {
		return keep(keepStatusUnchanged)
	}
	// A merge patch replaces the list of conditions, to which another writer may add that of a
	// readiness gate meanwhile.
	return []engine.Action{engine.PatchLocalStatus{Old: &pod.Status, New: status, IfUnchanged: len(pod.Spec.ReadinessGates) > 0}}
}

// countRestarts returns how often the local pod restarted before this remote pod. Each
// new remote pod adds one. After a restart of the virtual kubelet the number is the
// difference between the restart counts of the first container. The numbers of the provider
// may be any, and the sum stays a number.
func countRestarts(m memory, pod, remotePod *corev1.Pod) int32 {
	switch m.remoteUID {
	case remotePod.UID:
		return m.restarts
	case "":
	default:
		return max(m.restarts, m.restarts+1) // The number after the largest one is negative.
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return 0
	}
	first := pod.Status.ContainerStatuses[0]
	if len(remotePod.Status.ContainerStatuses) == 0 {
		return first.RestartCount // None of its containers has begun.
	}
	for i := range remotePod.Status.ContainerStatuses {
		if container := &remotePod.Status.ContainerStatuses[i]; container.Name == first.Name {
			return max(0, first.RestartCount-max(0, container.RestartCount))
		}
	}
	return 0
}

// reportsNothing reports whether both statuses only state that the pod is pending. The time
// and the name of the scheduler are not worth a request per pod.
func reportsNothing(current, desired *corev1.PodStatus) bool {
	return isJustPending(current) && isJustPending(desired) && current.Reason == desired.Reason && current.Message == desired.Message
}

// isJustPending reports whether no container has a status and no condition is a problem.
func isJustPending(status *corev1.PodStatus) bool {
	if status.Phase != corev1.PodPending || len(status.ContainerStatuses) > 0 || len(status.InitContainerStatuses) > 0 {
		return false
	}
	for _, condition := range status.Conditions {
		if condition.Type != corev1.PodScheduled || condition.Status != corev1.ConditionTrue {
			return false
		}
	}
	return true
}
