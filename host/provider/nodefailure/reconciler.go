// Package nodefailure deletes, by force, the pods of ShadowPods that are being deleted on Nodes
// which are not ready: their kubelets cannot confirm the end. The ShadowPod
// controller then creates them on other Nodes.
//
// The controller is off by default. A Node that only lost its connection still runs such a pod,
// beside its replacement.
package nodefailure

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// nodeNameIndex is the index of pods by Node.
const nodeNameIndex = "spec.nodeName"

// Reconciler deletes pods of failed Nodes.
//
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
type Reconciler struct {
	// Client reads from the manager's cache, which holds the pods of ShadowPods.
	Client client.Client
}

// SetupWithManager watches Nodes and the pods of ShadowPods.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, nodeNameIndex, nodeNameOf); err != nil {
		return fmt.Errorf("indexing pods by Node: %w", err)
	}
	toNode := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: nodeNameOf(object)[0]}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("nodefailure").
		For(&corev1.Node{}, builder.WithPredicates(becomesNotReady())).
		Watches(&corev1.Pod{}, toNode, builder.WithPredicates(predicate.NewPredicateFuncs(isTerminating))).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

func nodeNameOf(object client.Object) []string {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return []string{""}
	}
	return []string{pod.Spec.NodeName}
}

// becomesNotReady passes Nodes that are not ready when they are observed first, and when they
// cease to be.
func becomesNotReady() predicate.Predicate {
	notReady := func(object client.Object) bool {
		node, ok := object.(*corev1.Node)
		return ok && !isReady(node)
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return notReady(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return notReady(e.ObjectNew) && !notReady(e.ObjectOld) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// isTerminating passes pods that a kubelet is to end.
func isTerminating(object client.Object) bool {
	return object.GetDeletionTimestamp() != nil && nodeNameOf(object)[0] != ""
}

// Reconcile deletes the terminating pods of a Node that is not ready.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, request.NamespacedName, node); err != nil {
		// The garbage collector for pods deletes the pods of a Node that does not exist.
		return ctrl.Result{}, client.IgnoreNotFound(err) //nolint:wrapcheck // The cache names the object.
	}
	pods := &corev1.PodList{}
	err := r.Client.List(ctx, pods, client.MatchingFields{nodeNameIndex: node.Name},
		client.MatchingLabels{offloadingv1beta1.ManagedByLabel: offloadingv1beta1.ManagedByShadowPod})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the pods of Node %q: %w", node.Name, err)
	}
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !hasFailed(node, pod) {
			continue
		}
		log.FromContext(ctx).Info("Deleting a pod of a failed node", "pod", client.ObjectKeyFromObject(pod), "uid", pod.UID)
		err := r.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting pod %s/%s of the failed Node %q: %w", pod.Namespace, pod.Name, node.Name, err))
		}
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// hasFailed reports whether a pod is being deleted on a Node that cannot confirm its end. It is
// pure.
func hasFailed(node *corev1.Node, pod *corev1.Pod) bool {
	return !isReady(node) && pod.DeletionTimestamp != nil && pod.Spec.NodeName == node.Name &&
		pod.Labels[offloadingv1beta1.ManagedByLabel] == offloadingv1beta1.ManagedByShadowPod
}

func isReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if condition := &node.Status.Conditions[i]; condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
