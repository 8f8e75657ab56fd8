package virtualnode

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// wantsNode reports whether the VirtualNode is to have a Node.
func wantsNode(vn *offloadingv1beta1.VirtualNode) bool {
	return ptr.Deref(vn.Spec.CreateNode, true)
}

// IsNodeOf reports whether the Node has the labels of a virtual node of the provider.
func IsNodeOf(node *corev1.Node, vn *offloadingv1beta1.VirtualNode) bool {
	return node.Labels[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual &&
		node.Labels[liqocorev1beta1.RemoteClusterIDLabel] == string(vn.Spec.ClusterID)
}

// neverUpdated is the reason in the conditions of a Node whose kubelet has not published any
// yet. It is set by kube-controller-manager.
const neverUpdated = "NodeStatusNeverUpdated"

// isPublished reports whether the virtual kubelet has published the Node's status at least
// once. The manager creates the Node without a status.
func isPublished(node *corev1.Node) bool {
	ready := readyCondition(node)
	return ready.Status != "" && ready.Reason != neverUpdated
}

// notReadyMessage returns why a Node is not ready, or "".
func notReadyMessage(node *corev1.Node) string {
	ready := readyCondition(node)
	if ready.Status == corev1.ConditionTrue {
		return ""
	}
	return "the Node is not ready: " + ready.Message
}

func readyCondition(node *corev1.Node) corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i]
		}
	}
	return corev1.NodeCondition{}
}
