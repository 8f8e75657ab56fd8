package shadowpod

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// Owns reports whether the pod was created for this ShadowPod. Other pods of the same name are
// never changed.
func Owns(shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.UID == shadow.UID
}
