// Package podend decides whether a pod ended by itself or because it was deleted.
//
// Since Kubernetes 1.27 a kubelet writes a terminal phase, mostly Failed, to a pod that
// was deleted before it removes it. For a controller that runs the pod again elsewhere,
// that is the end of this copy and not the outcome of the work.
package podend

import corev1 "k8s.io/api/core/v1"

// ByDeletion reports whether the pod has a terminal phase that comes from its deletion: it
// is being deleted, and reported, the phase that its owner has recorded of it, is not
// terminal. A pod that ends by itself is recorded before it is deleted.
//
// Times decide nothing. The API server's clock says when the pod was deleted, and the
// node's when its containers ended; the two may differ by more than a grace period. If the
// record was missed, the work is done once more, as when the pod were gone already.
func ByDeletion(pod *corev1.Pod, reported corev1.PodPhase) bool {
	return pod.DeletionTimestamp != nil && isTerminal(pod.Status.Phase) && !isTerminal(reported)
}

func isTerminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodFailed || phase == corev1.PodSucceeded
}
