package quota

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/fair"
)

// refreshDelay is how long changes of ShadowPods are collected before the status is written.
const refreshDelay = 2 * time.Second

// SetupWithManager keeps the status of Quotas: what is used, without reservations that ended. The
// decisions do not depend on it.
func (e *Enforcer) SetupWithManager(mgr ctrl.Manager) error {
	changed := func(ctx context.Context, object client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		list := &offloadingv1beta1.QuotaList{}
		user := object.GetLabels()[offloadingv1beta1.CreatorUserLabel]
		if quota, ok := object.(*offloadingv1beta1.Quota); ok {
			user = LabelValue(quota.Spec.User)
		}
		if err := e.Client.List(ctx, list, client.MatchingFields{userIndex: user}); err != nil {
			// Listing from the cache fails only while the process stops.
			ctrl.LoggerFrom(ctx).Error(err, "Listing Quotas failed")
		}
		for i := range list.Items {
			queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}, refreshDelay)
		}
	}
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	later := handler.Funcs{
		CreateFunc: func(ctx context.Context, ev event.CreateEvent, q requests) { changed(ctx, ev.Object, q) },
		UpdateFunc: func(ctx context.Context, ev event.UpdateEvent, q requests) { changed(ctx, ev.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, ev event.DeleteEvent, q requests) {
			changed(ctx, ev.Object, q)
			if _, ok := ev.Object.(*offloadingv1beta1.Quota); ok {
				if err := e.sweep(ctx); err != nil {
					ctrl.LoggerFrom(ctx).Error(err, "Forgetting users failed")
				}
			}
		},
	}
	return ctrl.NewControllerManagedBy(mgr).Named("quota").
		Watches(&offloadingv1beta1.Quota{}, later).
		Watches(&offloadingv1beta1.ShadowPod{}, later).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), e))
}

// Reconcile writes what is used into the status of a user's Quota.
func (e *Enforcer) Reconcile(ctx context.Context, quota *offloadingv1beta1.Quota) (ctrl.Result, error) {
	if !quota.DeletionTimestamp.IsZero() || !e.Account.Synced() {
		return ctrl.Result{RequeueAfter: refreshDelay}, nil
	}
	user := LabelValue(quota.Spec.User)
	first, err := e.Find(ctx, user)
	if err != nil || first == nil || first.UID != quota.UID {
		return ctrl.Result{}, err
	}
	if err := e.refresh(ctx, user); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	// If the status was written, its event enqueues the Quota again.
	var result ctrl.Result
	for i := range quota.Status.Reservations {
		// It may have ended then.
		left := quota.Status.Reservations[i].Time.Add(reservationLifetime + time.Second).Sub(e.Clock.Now())
		if result.RequeueAfter == 0 || left < result.RequeueAfter {
			result.RequeueAfter = max(left, refreshDelay)
		}
	}
	return result, nil
}
