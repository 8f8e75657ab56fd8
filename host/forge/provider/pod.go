// Package provider builds the objects of the provider: those that it creates for what a consumer has
// sent. Pod flow, stage 6: the pod of a ShadowPod. All functions are pure.
package provider

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

// Pod builds the pod of a ShadowPod: its labels, annotations and spec, with the
// ShadowPod as controller and the digests of the fields that it was made from.
func Pod(shadow *offloadingv1beta1.ShadowPod) *corev1.Pod {
	labels := maps.Clone(shadow.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[offloadingv1beta1.ManagedByLabel] = offloadingv1beta1.ManagedByShadowPod
	annotations := maps.Clone(shadow.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, podupdate.GatesAnnotation) // the provider writes its content to the status
	annotations[podupdate.AppliedAnnotation] = podupdate.FieldsOf(&shadow.Spec.Pod).AtCreation().Encode()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            shadow.Name,
			Namespace:       shadow.Namespace,
			Labels:          labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shadow, offloadingv1beta1.ShadowPodGVK)},
		},
		Spec: *shadow.Spec.Pod.DeepCopy(),
	}
	if ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 1) == 0 {
		// The API server would remove the pod at once, and its Quota would be free, while containers still run where
		// the kubelet is away.
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	}
	pod.Spec.EphemeralContainers = nil // a pod cannot be created with them: an update adds them
	return pod
}
