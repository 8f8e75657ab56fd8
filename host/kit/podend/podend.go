// Package podend tells whether a pod ended by itself or because somebody deleted it.
//
// Since Kubernetes 1.27 a kubelet writes a terminal phase, mostly Failed, to a pod that
// was deleted before it removes it. For whoever runs the pod again elsewhere, that is the
// end of this copy and not the outcome of the work.
package podend

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ByDeletion reports whether the pod has a terminal phase that comes from its deletion:
// it is being deleted, and not all of its containers had ended before that was asked
// for. Times count in whole seconds; what ended in the same second counts as deleted.
func ByDeletion(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil || pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
		return false
	}
	asked := pod.DeletionTimestamp.Time
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		asked = asked.Add(-time.Duration(*grace) * time.Second)
	}
	for i := range pod.Status.ContainerStatuses {
		terminated := pod.Status.ContainerStatuses[i].State.Terminated
		if terminated == nil || !terminated.FinishedAt.Time.Before(asked) {
			return true
		}
	}
	return len(pod.Status.ContainerStatuses) == 0
}
