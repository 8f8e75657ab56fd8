package quota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// refreshDelay is how long changes of ShadowPods are collected before the status is written.
const refreshDelay = 2 * time.Second

// SetupWithManager keeps the status of Quotas: what is used, without reservations that ended. The
// decisions do not depend on it.
func (e *Enforcer) SetupWithManager(mgr ctrl.Manager) error {
	changed := func(ctx context.Context, object client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		list := &offloadingv1beta1.QuotaList{}
		user := object.GetLabels()[offloadingv1beta1.CreatorUserLabel]
		if err := e.Client.List(ctx, list, client.MatchingFields{userIndex: user}); err != nil {
			// Listing from the cache fails only while the process stops.
			ctrl.LoggerFrom(ctx).Error(err, "Listing Quotas failed")
		}
		for i := range list.Items {
			queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}, refreshDelay)
		}
	}
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return ctrl.NewControllerManagedBy(mgr).Named("quota").
		For(&offloadingv1beta1.Quota{}).
		Watches(&offloadingv1beta1.ShadowPod{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, ev event.CreateEvent, q requests) { changed(ctx, ev.Object, q) },
			UpdateFunc: func(ctx context.Context, ev event.UpdateEvent, q requests) { changed(ctx, ev.ObjectNew, q) },
			DeleteFunc: func(ctx context.Context, ev event.DeleteEvent, q requests) { changed(ctx, ev.Object, q) },
		}).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), e))
}

// Reconcile writes what is used into the status of a Quota.
func (e *Enforcer) Reconcile(ctx context.Context, quota *offloadingv1beta1.Quota) (ctrl.Result, error) {
	if !quota.DeletionTimestamp.IsZero() || !e.Account.Synced() {
		return ctrl.Result{RequeueAfter: refreshDelay}, nil
	}
	next := quota.DeepCopy()
	var err error
	e.Account.read(LabelValue(quota.Spec.User), func(usage *Usage) {
		var status *offloadingv1beta1.QuotaStatus
		if status, err = refresh(quota, usage, e.Clock.Now()); err == nil {
			next.Status = *status
		}
	})
	if errors.Is(err, errUnconfirmed) {
		err = e.list(ctx, LabelValue(quota.Spec.User), 0)
		return ctrl.Result{RequeueAfter: refreshDelay}, err
	}
	if errors.Is(err, errStale) {
		return ctrl.Result{RequeueAfter: refreshDelay}, nil
	}
	var result ctrl.Result
	for i := range next.Status.Reservations {
		left := next.Status.Reservations[i].Time.Add(reservationLifetime + time.Second).Sub(e.Clock.Now())
		if result.RequeueAfter == 0 || left < result.RequeueAfter {
			result.RequeueAfter = max(left, refreshDelay)
		}
	}
	if equality.Semantic.DeepEqual(quota.Status, next.Status) {
		return result, nil
	}
	err = e.Client.Status().Update(ctx, next)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: refreshDelay}, nil // Another writer's status enqueues it, too.
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of Quota %s/%s: %w", quota.Namespace, quota.Name, err)
	}
	return result, nil
}
