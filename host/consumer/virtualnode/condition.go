package virtualnode

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// reportConditions sets the conditions of virtual kubelet and Node. Running means that a pod of
// the virtual kubelet is available, and that the Node exists.
func (r *Reconciler) reportConditions(ctx context.Context, vn *offloadingv1beta1.VirtualNode, deployment *appsv1.Deployment) error {
	status, message := offloadingv1beta1.RunningConditionStatusType, ""
	if deployment.Status.AvailableReplicas == 0 {
		status, message = offloadingv1beta1.CreatingConditionStatusType, "no replica of the virtual kubelet is available yet"
	}
	r.setCondition(vn, offloadingv1beta1.VirtualKubeletConditionType, status, message)
	if vn.Spec.CreateNode != nil && !*vn.Spec.CreateNode {
		return nil
	}
	node := &corev1.Node{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: vn.Name}, node)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Node %q: %w", vn.Name, err)
	}
	switch {
	case apierrors.IsNotFound(err):
		status = offloadingv1beta1.CreatingConditionStatusType
	case !IsNodeOf(node, vn):
		status, message = offloadingv1beta1.CreatingConditionStatusType,
			fmt.Sprintf("Node %q exists and is not a virtual node of cluster %q: delete this VirtualNode and create it under another name", vn.Name, vn.Spec.ClusterID)
	case !isPublished(node):
		status = offloadingv1beta1.CreatingConditionStatusType
		if message == "" {
			message = "the virtual kubelet has not published the Node's status: it waits for the provider, see the events of this VirtualNode"
		}
	default:
		status = offloadingv1beta1.RunningConditionStatusType
		if unready := notReadyMessage(node); unready != "" {
			message = unready
		}
	}
	r.setCondition(vn, offloadingv1beta1.NodeConditionType, status, message)
	return nil
}

// reportFailure sets the error of a reconcile as the message of the condition of the virtual kubelet,
// whose status it keeps: the virtual kubelet may serve its Node all the same. Conflicts are not
// reported, because the next reconcile reads the current objects.
func (r *Reconciler) reportFailure(vn *offloadingv1beta1.VirtualNode, err error) {
	if apierrors.IsConflict(err) || errors.Is(err, context.Canceled) {
		return
	}
	r.setCondition(vn, offloadingv1beta1.VirtualKubeletConditionType, kubeletStatus(vn), "the manager could not reconcile the VirtualNode and tries again: "+err.Error())
}

// kubeletStatus returns the status in the condition of the virtual kubelet, which is kept when there
// is only a message to set.
func kubeletStatus(vn *offloadingv1beta1.VirtualNode) offloadingv1beta1.VirtualNodeConditionStatusType {
	for _, condition := range vn.Status.Conditions {
		if condition.Type == offloadingv1beta1.VirtualKubeletConditionType {
			return condition.Status
		}
	}
	if !vn.DeletionTimestamp.IsZero() {
		return offloadingv1beta1.DrainingConditionStatusType
	}
	return offloadingv1beta1.CreatingConditionStatusType
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

// nodeChanges accepts changes of a Node that reportConditions depends on, but no heartbeats.
func nodeChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, okToo := e.ObjectNew.(*corev1.Node)
		if !ok || !okToo {
			return true
		}
		for _, label := range []string{offloadingv1beta1.NodeTypeLabel, liqocorev1beta1.RemoteClusterIDLabel} {
			if before.Labels[label] != after.Labels[label] {
				return true
			}
		}
		return notReadyMessage(before) != notReadyMessage(after) || isPublished(before) != isPublished(after)
	}}
}

// clusterChanges selects the events of a ForeignCluster that the VirtualNodes depend on. Its status
// changes with each of their Nodes: without this, each would reconcile all of them.
func clusterChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*liqocorev1beta1.ForeignCluster)
		after, okToo := e.ObjectNew.(*liqocorev1beta1.ForeignCluster)
		return !ok || !okToo || clusterOf(before) != clusterOf(after) || before.PermanentlyUnreachable() != after.PermanentlyUnreachable()
	}}
}

// requestsForNode returns requests for the VirtualNodes with the name of a Node.
func (r *Reconciler) requestsForNode(ctx context.Context, obj client.Object) []reconcile.Request {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, list, readOnly); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing VirtualNodes failed")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Name == obj.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

func (r *Reconciler) setCondition(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType, status offloadingv1beta1.VirtualNodeConditionStatusType, message string) {
	SetCondition(vn, kind, status, message, metav1.NewTime(r.Clock.Now()))
}

// SetCondition sets the condition of a type, which occurs at most once. It keeps the
// transition time of an unchanged status, and ignores invalid transitions.
func SetCondition(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType, status offloadingv1beta1.VirtualNodeConditionStatusType, message string, now metav1.Time) {
	desired := offloadingv1beta1.VirtualNodeCondition{Type: kind, Status: status, Message: message, LastTransitionTime: now}
	kept := make([]offloadingv1beta1.VirtualNodeCondition, 0, len(vn.Status.Conditions)+1)
	for _, c := range vn.Status.Conditions {
		if c.Type != kind {
			kept = append(kept, c)
			continue
		}
		if c.Status == status || isInvalidTransition(c.Status, status) {
			desired.Status, desired.LastTransitionTime = c.Status, c.LastTransitionTime
		}
	}
	vn.Status.Conditions = append(kept, desired)
}

func isInvalidTransition(from, to offloadingv1beta1.VirtualNodeConditionStatusType) bool {
	switch from {
	case offloadingv1beta1.NoneConditionStatusType:
		return to == offloadingv1beta1.DrainingConditionStatusType || to == offloadingv1beta1.DeletingConditionStatusType
	case offloadingv1beta1.DeletingConditionStatusType:
		return to == offloadingv1beta1.DrainingConditionStatusType
	default:
		return false
	}
}
