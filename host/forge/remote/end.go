package remote

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// EndingShadowPod builds the ShadowPod that says of a remote pod, whose own ShadowPod is
// gone, how many seconds of grace it is given (ADR 42). It carries whose the pod is, and
// no containers: no pod is ever made for it.
func EndingShadowPod(pod *corev1.Pod, seconds int64) *offloadingv1beta1.ShadowPod {
	shadow := &offloadingv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, Labels: map[string]string{},
			Annotations: map[string]string{
				LocalPodUIDAnnotation:                           pod.Annotations[LocalPodUIDAnnotation],
				offloadingv1beta1.DeletionGracePeriodAnnotation: strconv.FormatInt(seconds, 10),
			},
		},
		Spec: offloadingv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{}}},
	}
	for _, key := range []string{offloadingv1beta1.OriginLabel, offloadingv1beta1.DestinationLabel, offloadingv1beta1.NodeNameLabel} {
		if value, ok := pod.Labels[key]; ok {
			shadow.Labels[key] = value
		}
	}
	return shadow
}
