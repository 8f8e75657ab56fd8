// Package podstatus: Pod flow, stage 7: labels the offloaded pods of a virtual node that is
// not ready, and removes the label when it is ready. The virtual kubelet keeps
// labeled pods not ready, because the status of their remote pods is stale.
//
// The controller runs in the manager, because the virtual kubelet may have failed. It does not
// write pod status, which belongs to the virtual kubelet.
package podstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

const (
	nodeNameField = "spec.nodeName"
	// labelValue is the value of both labels.
	labelValue = "true"
	// relistInterval is how often the pods of a Node that is not ready are listed again: pods
	// may have been offloaded meanwhile.
	relistInterval = 30 * time.Second
)

// Reconciler labels pods.
//
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;patch
type Reconciler struct {
	Client client.Client
	// APIReader lists the pods of a Node, which are not cached.
	APIReader client.Reader
}

// SetupWithManager adds the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	relevant := predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return isVirtual(e.Object) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, okToo := e.ObjectNew.(*corev1.Node)
			return ok && okToo && isReadinessChange(before, after)
		},
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("podstatus").
		For(&corev1.Node{}, builder.WithPredicates(relevant)).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("adding the podstatus controller: %w", err)
	}
	return nil
}

// Reconcile labels the pods of a Node that is not ready, and removes the label otherwise.
func (r *Reconciler) Reconcile(ctx context.Context, node *corev1.Node) (ctrl.Result, error) {
	if !isVirtual(node) {
		return ctrl.Result{}, nil
	}
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err := r.APIReader.List(ctx, pods, client.MatchingFields{nodeNameField: node.Name},
		client.MatchingLabels{offloadingv1beta1.LocalPodLabel: labelValue})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the offloaded pods of Node %q: %w", node.Name, err)
	}
	unavailable := !isReady(node)
	var errs []error
	for i := range pods.Items {
		errs = append(errs, r.label(ctx, &pods.Items[i], unavailable))
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	if unavailable {
		return ctrl.Result{RequeueAfter: relistInterval}, nil
	}
	return ctrl.Result{}, nil
}

// label sets or removes the label of one pod.
func (r *Reconciler) label(ctx context.Context, pod *metav1.PartialObjectMetadata, unavailable bool) error {
	value, isLabeled := pod.Labels[offloadingv1beta1.RemoteUnavailableLabel]
	var desired any
	if unavailable {
		desired = labelValue
	}
	if unavailable && value == labelValue || !unavailable && !isLabeled {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "labels": map[string]any{offloadingv1beta1.RemoteUnavailableLabel: desired},
	}})
	if err == nil {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		err = client.IgnoreNotFound(r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)))
	}
	if err != nil {
		return fmt.Errorf("labeling pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// isReadinessChange reports whether an update of a Node changes the label of its pods.
func isReadinessChange(before, after *corev1.Node) bool {
	return isVirtual(after) && (!isVirtual(before) || isReady(before) != isReady(after))
}

func isVirtual(node client.Object) bool {
	return node.GetLabels()[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual
}

func isReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if condition := &node.Status.Conditions[i]; condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
