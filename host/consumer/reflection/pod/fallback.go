package pod

import (
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/local"
)

// Fallback implements engine.Fallback for a pod on the virtual node whose namespace is not
// offloaded. A pod that has never run stays Pending. A pod that has run
// fails, so that its controller creates another: the remote namespace is deleted. While the provider reports no
// namespace although one is requested, a pod that was sent may still run there: it is kept, also if it is deleted.
func (d *Definition) Fallback(in engine.Input) ([]engine.Action, error) {
	pod, ok := in.Local.(*corev1.Pod)
	if !ok {
		return keep(keepNotPod), nil
	}
	mayReturn := in.Facts.MappingStarts || in.Facts.MappingFails
	switch {
	case pod.DeletionTimestamp != nil && (!wasSent(pod) || !mayReturn):
		return endLocal(pod, in.Facts.Now), nil
	case isFinished(pod):
		return keep(keepFinished), nil
	case pod.Status.Phase == corev1.PodPending && len(pod.Status.ContainerStatuses) == 0 && (!wasSent(pod) || !mayReturn):
		status := local.NotOffloadedStatus(pod, in.Facts.ProviderClusterID, in.Facts.Now)
		return append(patchStatus(pod, status), engine.RecordEvent{
			Type: engine.EventWarning, Reason: engine.ReasonReflectionDisabled, Message: status.Message,
		}), nil
	case in.Facts.MappingStarts:
		return keep(keepMappingStarts), nil
	case in.Facts.MappingFails:
		message := "Cluster " + in.Facts.ProviderClusterID + " has not created or restored the remote namespace of " + in.Key.Namespace +
			". The pod may still run there, and its status is not updated. Read the status of the NamespaceOffloading."
		if pod.DeletionTimestamp != nil {
			message += " The pod is deleted once the namespace is there, or is no longer offloaded. " +
				"\"kubectl delete --force\" deletes it here at once, and leaves what runs there."
		}
		return []engine.Action{
			engine.RecordEvent{Type: engine.EventWarning, Reason: engine.ReasonFailedReflection, Message: message},
			// The end of the request is no event of the pod.
			engine.Requeue{After: mappingRetry, Reason: waitMapping},
		}, nil
	default:
		message := "Namespace " + in.Key.Namespace + " is no longer offloaded to cluster " + in.Facts.ProviderClusterID
		return append([]engine.Action{d.noteEnd(observe(in))}, patchStatus(pod, local.RejectedPodStatus(&pod.Status, corev1.PodFailed,
			offloadingv1beta1.OffloadingAbortedReason, message, in.Facts.Now))...), nil
	}
}

// wasSent reports whether a pod may run in the provider: it has not ended, and was offloaded. The label follows
// the ShadowPod after a moment, so that the status is asked too.
func wasSent(pod *corev1.Pod) bool {
	return !isFinished(pod) && (pod.Labels[offloadingv1beta1.LocalPodLabel] == "true" ||
		pod.Status.Phase != corev1.PodPending || len(pod.Status.ContainerStatuses) > 0)
}
