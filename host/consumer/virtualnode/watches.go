package virtualnode

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/fair"
)

// SetupWithManager registers watches on VirtualNodes and on the objects created for them.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	kubelets := builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
		labels := obj.GetLabels()
		return labels[offloadingv1beta1.ComponentLabel] == offloadingv1beta1.ComponentVirtualKubelet && labels[offloadingv1beta1.VirtualNodeLabel] != ""
	}))
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return startInformers(ctx, mgr.GetCache()) })); err != nil {
		return fmt.Errorf("adding informers: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("virtualnode").
		For(&offloadingv1beta1.VirtualNode{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(requestsForDeployment), kubelets).
		Watches(&offloadingv1beta1.NamespaceMap{}, handler.EnqueueRequestsFromMapFunc(r.requestsForCluster), builder.WithPredicates(onlyDeletions())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.requestsForNode), builder.WithPredicates(nodeChanges())).
		Watches(&liqocorev1beta1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(r.requestsForCluster), builder.WithPredicates(clusterChanges())).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.requestsForKubeconfig), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Watches(&offloadingv1beta1.VkOptionsTemplate{}, handler.EnqueueRequestsFromMapFunc(r.requestsForOptions), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// onlyDeletions accepts deletion events.
func onlyDeletions() predicate.Predicate {
	never := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	never.DeleteFunc = nil
	return never
}

// nodeChanges accepts changes of a Node that reportNode depends on, but no heartbeats.
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

// requestsForDeployment returns a request for the VirtualNode of a Deployment.
func requestsForDeployment(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[offloadingv1beta1.VirtualNodeLabel]}}}
}

// requestsForKubeconfig returns requests for the VirtualNodes with a Secret, which holds their
// kubeconfig.
func (r *Reconciler) requestsForKubeconfig(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.requests(ctx, func(vn *offloadingv1beta1.VirtualNode) bool {
		ref := vn.Spec.KubeconfigSecretRef
		return vn.Namespace == obj.GetNamespace() && ref != nil && ref.Name == obj.GetName()
	})
}

// requestsForCluster returns requests for the VirtualNodes of the cluster of an object.
func (r *Reconciler) requestsForCluster(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.requests(ctx, func(vn *offloadingv1beta1.VirtualNode) bool { return string(vn.Spec.ClusterID) == clusterOf(obj) })
}

// requestsForNode returns requests for the VirtualNodes with the name of a Node.
func (r *Reconciler) requestsForNode(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.requests(ctx, func(vn *offloadingv1beta1.VirtualNode) bool { return vn.Name == obj.GetName() })
}

// requestsForOptions returns requests for the VirtualNodes of a VkOptionsTemplate.
func (r *Reconciler) requestsForOptions(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.requests(ctx, func(vn *offloadingv1beta1.VirtualNode) bool {
		return r.optionsKey(vn) == client.ObjectKeyFromObject(obj)
	})
}

// requests returns requests for the VirtualNodes that match.
func (r *Reconciler) requests(ctx context.Context, matches func(*offloadingv1beta1.VirtualNode) bool) []reconcile.Request {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, list, readOnly); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing VirtualNodes failed")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if matches(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
