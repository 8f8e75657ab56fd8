// Package podend distinguishes a pod that ended by itself from a pod that was deleted.
//
// Since Kubernetes 1.27 a kubelet writes a terminal phase, mostly Failed, to a pod that is
// being deleted. A controller that creates the pod again must not take that phase for the
// result of the pod.
package podend

import corev1 "k8s.io/api/core/v1"

// ByDeletion reports whether the pod has a terminal phase because it is being deleted.
// reported is the phase that was recorded before: the phase of a pod that ends by itself is
// recorded before the pod is deleted.
//
// ByDeletion compares no times. The deletion is timed by the API server and the end of the
// containers by the node, and the clocks may differ by more than a grace period. If the record
// is missing, the pod runs once more, as if it had been removed already.
func ByDeletion(pod *corev1.Pod, reported corev1.PodPhase) bool {
	return pod.DeletionTimestamp != nil && IsTerminal(pod.Status.Phase) && !IsTerminal(reported)
}

// IsTerminal reports whether a pod in this phase has ended for good.
func IsTerminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodFailed || phase == corev1.PodSucceeded
}
