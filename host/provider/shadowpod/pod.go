package shadowpod

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// ForgePod builds the pod that a ShadowPod asks for (reference 3.7): its labels and
// annotations, its spec as it is, the ShadowPod as controller.
func ForgePod(shadow *offloadingv1beta1.ShadowPod) *corev1.Pod {
	labels := maps.Clone(shadow.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[offloadingv1beta1.ManagedByLabel] = offloadingv1beta1.ManagedByShadowPod
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            shadow.Name,
			Namespace:       shadow.Namespace,
			Labels:          labels,
			Annotations:     maps.Clone(shadow.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shadow, offloadingv1beta1.ShadowPodGVK)},
		},
		Spec: *shadow.Spec.Pod.DeepCopy(),
	}
}

// Owns reports whether the pod is the one that this very ShadowPod asked for. A pod
// of the same name that someone else made is never touched (T23).
func Owns(shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.UID == shadow.UID
}

// Terminal reports whether the ShadowPod has reached a phase after which its pod is
// never created again (reference 3.7).
func Terminal(shadow *offloadingv1beta1.ShadowPod) bool {
	return shadow.Status.Phase == corev1.PodSucceeded || shadow.Status.Phase == corev1.PodFailed
}

// missing returns the entries of want that have lacks or holds with another value.
func missing(have, want map[string]string) map[string]string {
	var diff map[string]string
	for key, value := range want {
		if current, ok := have[key]; ok && current == value {
			continue
		}
		if diff == nil {
			diff = map[string]string{}
		}
		diff[key] = value
	}
	return diff
}
