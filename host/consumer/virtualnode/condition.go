package virtualnode

import (
	"context"
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

// report tells how far virtual kubelet and Node are. Running means that the virtual
// kubelet's pod is available, not that its Deployment was written (T59), and that the
// Node exists.
func (r *Reconciler) report(ctx context.Context, vn *offloadingv1beta1.VirtualNode, deployment *appsv1.Deployment) error {
	status, message := offloadingv1beta1.RunningConditionStatusType, ""
	if deployment.Status.AvailableReplicas == 0 {
		status, message = offloadingv1beta1.CreatingConditionStatusType, "no replica of the virtual kubelet is available yet"
	}
	r.set(vn, offloadingv1beta1.VirtualKubeletConditionType, status, message)
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
	case !isNodeOf(node, vn):
		status, message = offloadingv1beta1.CreatingConditionStatusType,
			fmt.Sprintf("a Node %q exists that is no virtual node of cluster %q: delete this VirtualNode, and create it with another name", vn.Name, vn.Spec.ClusterID)
	case !isPublished(node):
		status = offloadingv1beta1.CreatingConditionStatusType
		if message == "" {
			message = "the virtual kubelet has not published the Node's status. It does so once the provider answers; events of this VirtualNode say what prevents it"
		}
	default:
		status = offloadingv1beta1.RunningConditionStatusType
		if unready := notReady(node); unready != "" {
			message = unready
		}
	}
	r.set(vn, offloadingv1beta1.NodeConditionType, status, message)
	return nil
}

// isNodeOf reports whether a virtual kubelet would take the Node for its own.
func isNodeOf(node *corev1.Node, vn *offloadingv1beta1.VirtualNode) bool {
	return node.Labels[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual &&
		node.Labels[liqocorev1beta1.RemoteClusterIDLabel] == string(vn.Spec.ClusterID)
}

// neverUpdated is the reason that kube-controller-manager gives to the conditions of a Node
// whose kubelet has never published any.
const neverUpdated = "NodeStatusNeverUpdated"

// isPublished reports whether the virtual kubelet has published the Node's status at least
// once: the manager creates the Node, and knows nothing of the provider.
func isPublished(node *corev1.Node) bool {
	ready := readiness(node)
	return ready.Status != "" && ready.Reason != neverUpdated
}

// notReady says why a Node is not ready, or "".
func notReady(node *corev1.Node) string {
	ready := readiness(node)
	switch ready.Status {
	case corev1.ConditionTrue:
		return ""
	default:
		return "the Node is not ready: " + ready.Message
	}
}

func readiness(node *corev1.Node) corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i]
		}
	}
	return corev1.NodeCondition{}
}

// nodeChanges lets through what report tells of a Node, and not its heartbeats.
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
		return notReady(before) != notReady(after) || isPublished(before) != isPublished(after)
	}}
}

// ofNode returns the VirtualNode of a Node, which bears its name.
func (r *Reconciler) ofNode(ctx context.Context, obj client.Object) []reconcile.Request {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, list); err != nil {
		// The cache cannot fail to list; were it to, the next event would enqueue it.
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

func (r *Reconciler) set(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType, status offloadingv1beta1.VirtualNodeConditionStatusType, message string) {
	SetCondition(vn, kind, status, message, metav1.NewTime(r.Clock.Now()))
}
