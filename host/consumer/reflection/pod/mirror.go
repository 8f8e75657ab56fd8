package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

// remotePodReplacedReason is the reason why a pod is not ready whose remote pod was
// deleted in the provider, which makes another.
const remotePodReplacedReason = "RemotePodReplaced"

// ReasonRefused is the reason in the status of a local pod for which the provider can make
// no remote pod, and of the event that says why.
const ReasonRefused = "RemotePodRefused"

// memory is what the definition remembers of a pod. Losing it costs one evaluation of
// the policies and an estimate of the restarts.
type memory struct {
	// local is the local pod of which all this is remembered, and own its grace period in
	// seconds: what is known of a pod that is gone.
	local types.UID
	own   int64
	// ending is the end of the remote pod, once it is asked for.
	ending ending
	// letGo is when the local pod was deleted, after all that was remote had gone.
	letGo time.Time
	// remoteUID is the remote pod that was mirrored last.
	remoteUID types.UID
	// restarts is what the restart counts of earlier remote pods add up to (3.8, R).
	restarts int32
	// source and wanted are the hashes of what labels and annotations were forged from,
	// and of what they are to be.
	source, wanted uint64
	// contest counts the patches of labels and annotations.
	contest engine.Contest
}

// of returns what is remembered of a local pod, which is little when the pod is another
// than the last one; without a local pod it is what is remembered of the one that is gone.
func (m memory) of(local *corev1.Pod) memory {
	switch {
	case local == nil:
		return m
	case m.local != local.UID:
		return memory{local: local.UID, own: ownPeriod(&local.Spec)}
	default:
		return m
	}
}

// mirror is row 13: the status of the remote pod becomes the local pod's.
func (d *Definition) mirror(s scene) []engine.Action {
	switch {
	case s.pod != nil:
		return d.mirrorPod(s)
	case s.shadow == nil:
		return keep("neither remote object exists")
	case finished(s.local):
		return keep("the pod has finished; its last status persists")
	case s.shadow.Status.Phase == corev1.PodSucceeded || s.shadow.Status.Phase == corev1.PodFailed:
		status := local.RejectedPodStatus(&s.local.Status, s.shadow.Status.Phase,
			offloadingv1beta1.RemotePodTerminatedReason, s.remoteMessage(), s.in.Facts.Now)
		return setStatus(s.local, status)
	case s.shadow.Status.Reason != "" && s.shadow.DeletionTimestamp == nil && s.local.DeletionTimestamp == nil:
		return s.refused()
	default:
		return keep("the remote pod does not exist yet; the last status persists")
	}
}

func (d *Definition) mirrorPod(s scene) []engine.Action {
	restarts := countRestarts(s.memory, s.local, s.pod)
	var actions []engine.Action
	if s.memory.remoteUID != s.pod.UID || s.memory.restarts != restarts {
		s.memory.remoteUID, s.memory.restarts = s.pod.UID, restarts
		actions = append(actions, engine.Remember{Value: s.memory})
	}
	// Also where the provider deletes the ShadowPod as well: the local pod gets another.
	if s.local.DeletionTimestamp == nil && podend.ByDeletion(s.pod, s.reportedPhase()) {
		return append(actions, setStatus(s.local, replaced(&s.local.Status, &s.pod.Status))...)
	}
	status := local.PodStatus(local.PodStatusInput{
		Local: s.local, Remote: s.pod, NodeIP: s.in.Facts.NodeIP, ExtraRestarts: restarts,
		DisableIPReflection: d.options.DisableIPReflection, MapIP: d.options.MapIP, Now: s.in.Facts.Now,
		Unknown: s.in.Facts.RemoteUnknown,
	})
	keepOwn(status, &s.local.Status)
	if uninformative(&s.local.Status, status) {
		return append(actions, engine.Keep{Reason: "the remote pod has nothing to report yet"})
	}
	actions = append(actions, setStatus(s.local, status)...)
	if s.waitsForReadiness() {
		actions = append(actions, engine.RefreshRemote{})
	}
	return actions
}

// remoteMessage is the message of the local status that came from the remote pod, and not
// from the reflection itself.
func (s scene) remoteMessage() string {
	switch s.local.Status.Reason {
	case ReasonRefused, ReasonDenied, ReasonPolicyFailed, offloadingv1beta1.OffloadingBackOffReason:
		return ""
	default:
		return s.local.Status.Message
	}
}

// waitsForReadiness reports whether the local pod would be ready if the remote pod is
// still as it was before an outage. While the provider is given up, it would not.
func (s scene) waitsForReadiness() bool {
	return s.in.Facts.RemoteUnknown && s.local.Labels[offloadingv1beta1.RemoteUnavailableLabel] != "true" &&
		!local.IsReady(&s.local.Status) && local.IsReady(&s.pod.Status)
}

// reportedPhase returns the phase that the provider has recorded in the ShadowPod; a
// terminal one is final.
func (s scene) reportedPhase() corev1.PodPhase {
	if s.shadow == nil {
		return ""
	}
	return s.shadow.Status.Phase
}

// refused tells the pod's owner what stands against the remote pod in the provider, which
// goes on trying. A pod that has run keeps its phase, but is not ready.
func (s scene) refused() []engine.Action {
	message := "Cluster " + s.in.Facts.ProviderClusterID + " cannot make the pod (" + s.shadow.Status.Reason + "): " + s.shadow.Status.Message
	status := notReady(&s.local.Status, ReasonRefused, func(corev1.PodConditionType) *metav1.Time {
		return ptr.To(metav1.NewTime(s.in.Facts.Now.Truncate(time.Second)))
	})
	status.Reason, status.Message = ReasonRefused, message
	return append(setStatus(s.local, status), engine.RecordEvent{Type: engine.EventWarning, Reason: ReasonRefused, Message: message})
}

// replaced is the local status while the provider evicts the remote pod and makes another:
// the pod is not ready, and that is all. The terminal phase of the one that goes would
// end the local pod for good.
func replaced(have, there *corev1.PodStatus) *corev1.PodStatus {
	return notReady(have, remotePodReplacedReason, func(conditionType corev1.PodConditionType) *metav1.Time {
		for i := range there.Conditions {
			if there.Conditions[i].Type == conditionType && there.Conditions[i].Status == corev1.ConditionFalse {
				return &there.Conditions[i].LastTransitionTime
			}
		}
		return nil
	})
}

// notReady returns the status of a pod that is ready no more, since when since tells, and
// else as it is.
func notReady(have *corev1.PodStatus, reason string, since func(corev1.PodConditionType) *metav1.Time) *corev1.PodStatus {
	status := have.DeepCopy()
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type != corev1.PodReady && condition.Type != corev1.ContainersReady || condition.Status != corev1.ConditionTrue {
			continue
		}
		condition.Status, condition.Reason = corev1.ConditionFalse, reason
		if at := since(condition.Type); at != nil {
			condition.LastTransitionTime = *at
		}
	}
	return status
}

// keepOwn restores what a status must not take from another cluster: the API server
// refuses another QoS class (which a policy or the provider's defaults for resources may
// have made) and a nominated node of a bound pod, and resource claims are named after
// objects of the consumer, whose own controllers write them.
func keepOwn(status, have *corev1.PodStatus) {
	status.QOSClass = have.QOSClass
	status.NominatedNodeName = have.NominatedNodeName
	status.ResourceClaimStatuses = have.ResourceClaimStatuses
	status.ExtendedResourceClaimStatus = have.ExtendedResourceClaimStatus
	status.NodeAllocatableResourceClaimStatuses = have.NodeAllocatableResourceClaimStatuses
}

// setStatus patches the status if it differs.
func setStatus(pod *corev1.Pod, status *corev1.PodStatus) []engine.Action {
	if equality.Semantic.DeepEqual(&pod.Status, status) {
		return keep("the status is the same")
	}
	return []engine.Action{engine.PatchLocalStatus{Old: &pod.Status, New: status}}
}

// countRestarts infers how many restarts the local pod had before this remote pod
// (3.8): each new remote pod is one more; after our own restart it is the difference
// that the first container still shows (T20).
func countRestarts(m memory, pod, remotePod *corev1.Pod) int32 {
	switch m.remoteUID {
	case remotePod.UID:
		return m.restarts
	case "":
	default:
		return m.restarts + 1
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return 0
	}
	first := pod.Status.ContainerStatuses[0]
	for i := range remotePod.Status.ContainerStatuses {
		if there := &remotePod.Status.ContainerStatuses[i]; there.Name == first.Name {
			return max(0, first.RestartCount-there.RestartCount)
		}
	}
	return 0
}

// uninformative reports that both statuses say no more than "pending": the remote pod
// has no container yet and is not held up by its scheduler. When and by which scheduler
// it was placed is nothing that the consumer acts on, and would cost a request per pod.
func uninformative(have, want *corev1.PodStatus) bool {
	return blank(have) && blank(want) && have.Reason == want.Reason && have.Message == want.Message
}

func blank(status *corev1.PodStatus) bool {
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
