package shadowpod

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// ForgePod builds the pod that a ShadowPod asks for (wire 3.7): its labels and
// annotations, its spec as it is, the ShadowPod as controller. An annotation tells the
// consumer what this controller can do.
func ForgePod(shadow *offloadingv1beta1.ShadowPod) *corev1.Pod {
	labels, annotations := maps.Clone(shadow.Labels), maps.Clone(shadow.Annotations)
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[offloadingv1beta1.ManagedByLabel] = offloadingv1beta1.ManagedByShadowPod
	annotations[offloadingv1beta1.SupportsAnnotation] = offloadingv1beta1.SupportsDeletionGracePeriod
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            shadow.Name,
			Namespace:       shadow.Namespace,
			Labels:          labels,
			Annotations:     annotations,
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

// endsEarlier reports whether a ShadowPod was made to say how the pod of an earlier
// ShadowPod of this name ends, for the same pod of the consumer (ADR 42). The earlier one is
// gone, or this one could not exist.
func endsEarlier(shadow *offloadingv1beta1.ShadowPod, pod *corev1.Pod) bool {
	period, err := GracePeriod(shadow)
	of := shadow.Annotations[remote.LocalPodUIDAnnotation]
	return err == nil && period != nil && ownerOf(pod) != nil && of != "" && of == pod.Annotations[remote.LocalPodUIDAnnotation]
}

// ownerOf returns the reference to the ShadowPod for which a pod was made, whether or
// not that still exists; nil for an unmanaged pod. Labels do not count: anyone who may
// label pods can remove them.
func ownerOf(pod *corev1.Pod) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != offloadingv1beta1.ShadowPodGVK.Kind || owner.Name != pod.Name {
		return nil
	}
	if group, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || group.Group != offloadingv1beta1.GroupVersion.Group {
		return nil
	}
	return owner
}

// Terminal reports whether the ShadowPod has reached a phase after which its pod is
// never created again (wire 3.7).
func Terminal(shadow *offloadingv1beta1.ShadowPod) bool {
	return shadow.Status.Phase == corev1.PodSucceeded || shadow.Status.Phase == corev1.PodFailed
}
