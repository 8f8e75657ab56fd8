package local

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// DaemonSetNotOffloadedReason is the status reason of a DaemonSet's pod that is on a virtual node in
// a namespace that is not offloaded.
const DaemonSetNotOffloadedReason = "DaemonSetNotOffloaded"

// NotOffloadedStatus builds the status of a pod that has never run and whose namespace is not
// offloaded to the provider of its virtual node. The pod stays Pending: a controller replaces a
// failed pod, which for a DaemonSet never ends. The message for a DaemonSet says which change keeps its
// pods off virtual nodes.
func NotOffloadedStatus(pod *corev1.Pod, provider string, now time.Time) *corev1.PodStatus {
	reason := offloadingv1beta1.OffloadingBackOffReason
	message := fmt.Sprintf("Namespace %s is not offloaded to cluster %s. Create a NamespaceOffloading in it, read the status of the one that exists, "+
		"or keep its pods off virtual nodes.", pod.Namespace, provider)
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		reason = DaemonSetNotOffloadedReason
		message = fmt.Sprintf("DaemonSet %s tolerates the taints of virtual node %s, and namespace %s is not offloaded to cluster %s. "+
			"To keep the DaemonSet off virtual nodes, add a required node affinity to its template: key %s, operator NotIn, value %s.",
			owner.Name, pod.Spec.NodeName, pod.Namespace, provider, offloadingv1beta1.NodeTypeLabel, offloadingv1beta1.NodeTypeVirtual)
	}
	return RejectedPodStatus(&pod.Status, corev1.PodPending, reason, message, now)
}
