package virtualnode

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/election"
)

// drainAnnotation marks a Node that was cordoned by a drain, and not by an administrator.
const (
	drainAnnotation = "longshore.dev/cordoned-by"
	drainValue      = "drain"
)

// withdraw removes the parts of a deleted VirtualNode: pods, virtual kubelet, Node, remaining
// ShadowPods, NamespaceMap, leases. It does not wait but requeues, so that a pod that does
// not end delays no other VirtualNode.
func (r *Reconciler) withdraw(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	node, err := r.node(ctx, vn)
	if err != nil {
		return ctrl.Result{}, err
	}
	if node != nil {
		drained, err := r.drain(ctx, vn, node)
		if err != nil || !drained {
			return ctrl.Result{RequeueAfter: drainPoll}, err
		}
	}
	r.setCondition(vn, offloadingv1beta1.VirtualKubeletConditionType, offloadingv1beta1.DeletingConditionStatusType, "")
	stopped, err := r.stopKubelet(ctx, vn)
	if err != nil || !stopped {
		return ctrl.Result{RequeueAfter: drainPoll}, err
	}
	if node != nil {
		r.setCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.DeletingConditionStatusType, "")
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, node, uidPrecondition(node))); err != nil {
			return ctrl.Result{}, fmt.Errorf("deleting Node %q: %w", node.Name, err)
		}
	}
	if err := r.withdrawShadowPods(ctx, vn); err != nil {
		return ctrl.Result{}, err
	}
	siblings, err := r.siblings(ctx, vn)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.releaseNamespaceMaps(ctx, vn, len(siblings) > 0); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.deleteLeases(ctx, vn, len(siblings) > 0); err != nil {
		return ctrl.Result{}, err
	}
	before := vn.DeepCopy()
	if controllerutil.RemoveFinalizer(vn, offloadingv1beta1.VirtualNodeFinalizer) {
		err := r.Client.Patch(ctx, vn, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("removing the finalizer of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, err)
		}
	}
	return ctrl.Result{}, nil
}

// deleteLeases deletes the lease of the virtual kubelet, which has ended, and with the last VirtualNode of
// the provider (shared is false) the one for which its virtual kubelets compete: client-go makes leases
// without an owner. A lease that may not be deleted, outside of a tenant namespace, holds no VirtualNode.
func (r *Reconciler) deleteLeases(ctx context.Context, vn *offloadingv1beta1.VirtualNode, shared bool) error {
	namespace := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: vn.Namespace}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading namespace %q: %w", vn.Namespace, err)
	}
	if err != nil || !namespace.DeletionTimestamp.IsZero() {
		return nil // They go with it, and the right to delete them may have.
	}
	names := []string{vn.Name}
	if !shared {
		names = append(names, election.LeaseName)
	}
	for _, name := range names {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: name}}
		if err := r.Client.Delete(ctx, lease); client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("deleting Lease %s/%s: %w", vn.Namespace, name, err)
		}
	}
	return nil
}

// removeNode drains and deletes the Node of a VirtualNode with createNode: false. It reports
// whether the Node is deleted.
func (r *Reconciler) removeNode(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	node, err := r.node(ctx, vn)
	if err != nil || node == nil {
		return node == nil, err
	}
	drained, err := r.drain(ctx, vn, node)
	if err != nil || !drained {
		return false, err
	}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, node, uidPrecondition(node))); err != nil {
		return false, fmt.Errorf("deleting Node %q: %w", node.Name, err)
	}
	return true, nil
}

// node returns the VirtualNode's Node, or nil. A Node of that name may be unmanaged, or belong
// to another VirtualNode.
func (r *Reconciler) node(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: vn.Name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Node %q: %w", vn.Name, err)
	}
	if !IsNodeOf(node, vn) {
		return nil, nil
	}
	if own, err := r.ownsNode(ctx, vn); err != nil || !own {
		return nil, err
	}
	return node, nil
}

// drain cordons the Node and evicts its pods. It reports whether no pod is left. The pods of a
// provider that an administrator declared permanently unreachable are deleted at once; a
// ForeignCluster that was deleted declares nothing.
func (r *Reconciler) drain(ctx context.Context, vn *offloadingv1beta1.VirtualNode, node *corev1.Node) (bool, error) {
	previousMessage := conditionMessage(vn, offloadingv1beta1.NodeConditionType)
	r.setCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.DrainingConditionStatusType, "")
	if !node.Spec.Unschedulable {
		before := node.DeepCopy()
		node.Spec.Unschedulable = true
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, drainAnnotation, drainValue)
		if err := r.Client.Patch(ctx, node, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("cordoning Node %q: %w", node.Name, err)
		}
	}
	fc, err := r.foreignCluster(ctx, vn)
	if err != nil {
		return false, err
	}
	// Select by node and not by the label of offloaded pods: a pod has the label only with its
	// first status, after its ShadowPod was created.
	pods := &corev1.PodList{}
	if err := r.APIReader.List(ctx, pods, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
		return false, fmt.Errorf("listing the pods of Node %q: %w", node.Name, err)
	}
	left := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !isDrainable(&pod) })
	err = r.evictAll(ctx, vn, left, fc != nil && fc.PermanentlyUnreachable(), previousMessage)
	return err == nil && len(left) == 0, err
}

// uncordon uncordons the Node after a drain that was canceled. The cordon of an administrator
// is kept.
func (r *Reconciler) uncordon(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	node, err := r.node(ctx, vn)
	if err != nil || node == nil || node.Annotations[drainAnnotation] == "" {
		return err
	}
	before := node.DeepCopy()
	node.Spec.Unschedulable = false
	delete(node.Annotations, drainAnnotation)
	if err := r.Client.Patch(ctx, node, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("uncordoning Node %q: %w", node.Name, err)
	}
	return nil
}

func isDrainable(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}
