package virtualnode

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// problemPoll is the requeue interval of a VirtualNode with a problem, such as no valid kubeconfig Secret.
const problemPoll = 5 * time.Second

// reporter sets conditions of a VirtualNode in memory, and records events on it.
type reporter struct {
	Events events.EventRecorder
	Clock  clock.PassiveClock
}

func (r reporter) setCondition(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType, status offloadingv1beta1.VirtualNodeConditionStatusType, message string) {
	SetCondition(vn, kind, status, message, metav1.NewTime(r.Clock.Now()))
}

// reportProblem reports why the objects of a VirtualNode are left as they are. The result ends the
// reconcile.
func (r reporter) reportProblem(vn *offloadingv1beta1.VirtualNode, problem string) ctrl.Result {
	status := kubeletStatus(vn)
	r.setCondition(vn, offloadingv1beta1.VirtualKubeletConditionType, status, problem)
	if status != offloadingv1beta1.RunningConditionStatusType {
		r.Events.Eventf(vn, nil, corev1.EventTypeWarning, reasonNotReady, actionRun, "Virtual kubelet not started: %s", problem)
	}
	return ctrl.Result{RequeueAfter: problemPoll}
}

// reportFailure sets the error of a reconcile as the message of the condition of the virtual kubelet,
// whose status it keeps: the virtual kubelet may serve its Node all the same. Conflicts are not
// reported, because the next reconcile reads the current objects.
func (r reporter) reportFailure(vn *offloadingv1beta1.VirtualNode, err error) {
	if apierrors.IsConflict(err) || errors.Is(err, context.Canceled) {
		return
	}
	r.setCondition(vn, offloadingv1beta1.VirtualKubeletConditionType, kubeletStatus(vn), "the manager could not reconcile the VirtualNode and tries again: "+err.Error())
}

// kubeletStatus returns the status in the condition of the virtual kubelet, which is kept when there
// is only a message to set.
func kubeletStatus(vn *offloadingv1beta1.VirtualNode) offloadingv1beta1.VirtualNodeConditionStatusType {
	for _, condition := range vn.Status.Conditions {
		if condition.Type == offloadingv1beta1.VirtualKubeletConditionType {
			return condition.Status
		}
	}
	if !vn.DeletionTimestamp.IsZero() {
		return offloadingv1beta1.DrainingConditionStatusType
	}
	return offloadingv1beta1.CreatingConditionStatusType
}

// conditionMessage returns the message of a condition, or "".
func conditionMessage(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType) string {
	for _, c := range vn.Status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

// SetCondition sets the condition of a type, which occurs at most once. It keeps the
// transition time of an unchanged status, and ignores invalid transitions.
func SetCondition(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType, status offloadingv1beta1.VirtualNodeConditionStatusType, message string, now metav1.Time) {
	desired := offloadingv1beta1.VirtualNodeCondition{Type: kind, Status: status, Message: message, LastTransitionTime: now}
	kept := make([]offloadingv1beta1.VirtualNodeCondition, 0, len(vn.Status.Conditions)+1)
	for _, c := range vn.Status.Conditions {
		if c.Type != kind {
			kept = append(kept, c)
			continue
		}
		if c.Status == status || isInvalidTransition(c.Status, status) {
			desired.Status, desired.LastTransitionTime = c.Status, c.LastTransitionTime
		}
	}
	vn.Status.Conditions = append(kept, desired)
}

func isInvalidTransition(from, to offloadingv1beta1.VirtualNodeConditionStatusType) bool {
	switch from {
	case offloadingv1beta1.NoneConditionStatusType:
		return to == offloadingv1beta1.DrainingConditionStatusType || to == offloadingv1beta1.DeletingConditionStatusType
	case offloadingv1beta1.DeletingConditionStatusType:
		return to == offloadingv1beta1.DrainingConditionStatusType
	default:
		return false
	}
}
