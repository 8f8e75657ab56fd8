package shadowpod

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// shortestPeriod is the shortest grace period, in seconds, after which a kubelet still
// confirms that the containers have ended. With none the API server forgets the pod at
// once, and what runs on runs unseen.
const shortestPeriod = 1

// GracePeriod returns how many seconds the consumer gives the ShadowPod's pod to end;
// nil when it says nothing of that. The error says what is wrong with the annotation,
// which then counts for nothing.
func GracePeriod(shadow *offloadingv1beta1.ShadowPod) (*int64, error) {
	text, told := shadow.Annotations[offloadingv1beta1.DeletionGracePeriodAnnotation]
	if !told {
		return nil, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("annotation %s=%q is no number of seconds that a consumer may ask for: %w",
			offloadingv1beta1.DeletionGracePeriodAnnotation, text, err)
	}
	return ptr.To(int64(seconds)), nil
}

// Ends reports whether the ShadowPod's pod is to end, and not to be made again: the
// ShadowPod is being deleted, or its consumer has said with how much grace.
func Ends(shadow *offloadingv1beta1.ShadowPod) bool {
	period, err := GracePeriod(shadow)
	return !shadow.DeletionTimestamp.IsZero() || err == nil && period != nil
}

// ending is what is to be done for a ShadowPod that ends.
type ending struct {
	// deletePod: the pod is deleted, with period seconds of grace; nil is the pod's own.
	deletePod bool
	period    *int64
	// release: the ShadowPod is let go, which was deleted in the foreground.
	release bool
}

// decideEnd decides for a ShadowPod that [Ends]; pod is its own, nil when there is none.
func decideEnd(shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) ending {
	deleted := !shadow.DeletionTimestamp.IsZero()
	switch {
	case deleted && slices.Contains(shadow.Finalizers, metav1.FinalizerOrphanDependents):
		return ending{} // whoever deleted it asked for the pod to stay
	case pod == nil:
		return ending{release: deleted && slices.Contains(shadow.Finalizers, metav1.FinalizerDeleteDependents)}
	}
	// What is wrong with an annotation is told elsewhere; the pod gets its own period.
	asked, _ := GracePeriod(shadow)
	period := granted(pod, asked)
	if pod.DeletionTimestamp.IsZero() || period != nil && *period < ptr.Deref(pod.DeletionGracePeriodSeconds, 0) {
		return ending{deletePod: true, period: period}
	}
	return ending{}
}

// granted is the period that a pod gets of what was asked for: never so little that its
// kubelet could not confirm the end, unless the pod itself does without.
func granted(pod *corev1.Pod, asked *int64) *int64 {
	if asked == nil || *asked >= shortestPeriod {
		return asked
	}
	own := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	return ptr.To(min(shortestPeriod, max(own, 0)))
}
