package pod

import (
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/local"
)

// Fallback implements engine.Fallback: a pod on the virtual node whose namespace is not
// offloaded, or no longer (wire 3.9). One that never ran waits (T29); one that
// ran is gone with the remote namespace, so that its controller makes another.
func (d *Definition) Fallback(in engine.Input) ([]engine.Action, error) {
	pod, ok := in.Local.(*corev1.Pod)
	if !ok {
		return keep("no pod"), nil
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return []engine.Action{engine.DeleteLocal{}}, nil
	case finished(pod):
		return keep("the pod has finished"), nil
	case pod.Status.Phase == corev1.PodPending && len(pod.Status.ContainerStatuses) == 0:
		message := "Namespace " + in.Key.Namespace + " is not offloaded to cluster " + in.Facts.ProviderClusterID +
			": the status of its NamespaceOffloading says why, if it has one"
		status := local.RejectedPodStatus(&pod.Status, corev1.PodPending,
			offloadingv1beta1.OffloadingBackOffReason, message, in.Facts.Now)
		return append(setStatus(pod, status), engine.RecordEvent{
			Type: engine.EventWarning, Reason: engine.ReasonReflectionDisabled, Message: message,
		}), nil
	case in.Facts.MappingFails:
		message := "Cluster " + in.Facts.ProviderClusterID + " cannot create or restore the remote namespace of " + in.Key.Namespace +
			": the status of the NamespaceOffloading says why. The pod may still run there; its status is not updated"
		return []engine.Action{engine.RecordEvent{Type: engine.EventWarning, Reason: engine.ReasonFailedReflection, Message: message}}, nil
	default:
		message := "Namespace " + in.Key.Namespace + " is no longer offloaded to cluster " + in.Facts.ProviderClusterID
		return setStatus(pod, local.RejectedPodStatus(&pod.Status, corev1.PodFailed,
			offloadingv1beta1.OffloadingAbortedReason, message, in.Facts.Now)), nil
	}
}
