package shadowpod

import (
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

// Trim is a cache transformation of ShadowPods that drops what the Reconciler does not read. It reads of one that has
// finished, of which a consumer may have many, only what keeps the ownership of its pod.
func Trim(object any) (any, error) {
	shadow, ok := object.(*offloadingv1beta1.ShadowPod)
	if !ok {
		return object, nil
	}
	shadow.ManagedFields = nil
	if podend.IsTerminal(shadow.Status.Phase) {
		shadow.Annotations = ownershipOf(&corev1.Pod{ObjectMeta: shadow.ObjectMeta}).Annotations
		shadow.Spec.Pod = corev1.PodSpec{}
	}
	return shadow, nil
}
