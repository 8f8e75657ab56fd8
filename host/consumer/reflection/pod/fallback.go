package pod

import (
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/local"
)

// Fallback implements engine.Fallback for a pod on the virtual node whose namespace is not
// offloaded. A pod that has never run stays Pending. A pod that has run
// fails, so that its controller creates another: the remote namespace is deleted.
func (d *Definition) Fallback(in engine.Input) ([]engine.Action, error) {
	pod, ok := in.Local.(*corev1.Pod)
	if !ok {
		return keep(keepNotPod), nil
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return endLocal(pod, in.Facts.Now), nil
	case isFinished(pod):
		return keep(keepFinished), nil
	case pod.Status.Phase == corev1.PodPending && len(pod.Status.ContainerStatuses) == 0:
		status := local.NotOffloadedStatus(pod, in.Facts.ProviderClusterID, in.Facts.Now)
		return append(patchStatus(pod, status), engine.RecordEvent{
			Type: engine.EventWarning, Reason: engine.ReasonReflectionDisabled, Message: status.Message,
		}), nil
	case in.Facts.MappingStarts:
		return keep(keepMappingStarts), nil
	case in.Facts.MappingFails:
		message := "Cluster " + in.Facts.ProviderClusterID + " has not created or restored the remote namespace of " + in.Key.Namespace +
			". The pod may still run there, and its status is not updated. Read the status of the NamespaceOffloading."
		return []engine.Action{engine.RecordEvent{Type: engine.EventWarning, Reason: engine.ReasonFailedReflection, Message: message}}, nil
	default:
		message := "Namespace " + in.Key.Namespace + " is no longer offloaded to cluster " + in.Facts.ProviderClusterID
		return append([]engine.Action{d.noteEnd(observe(in))}, patchStatus(pod, local.RejectedPodStatus(&pod.Status, corev1.PodFailed,
			offloadingv1beta1.OffloadingAbortedReason, message, in.Facts.Now))...), nil
	}
}
