package shadowpod

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/fair"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/provider/quota"
)

// endingDelay is how long deletions of ShadowPods, and ends of their pods, are collected before the status of
// a Quota is written: however many pods end, that is one write.
const endingDelay = 2 * time.Second

// Ending counts, in the status of Quotas, what pods hold whose ShadowPods are gone. Without it, a consumer
// could use its grant again and again: its pods may ignore the signal to end, and it chooses how long their
// kubelets wait. Until it has written, the webhook counts the ShadowPods that it has seen deleted. It counts there, too,
// what a consumer's pods hold whose ResourceSlices are gone, and with them their Quotas.
type Ending struct {
	Client client.Client

	mu sync.Mutex
	// deleted is the resource version of the newest deletion of a ShadowPod of each Quota's user, until it is
	// written.
	deleted map[types.NamespacedName]uint64
}

// SetupWithManager watches ShadowPods and their pods.
//
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=resourceslices,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas/status,verbs=patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
func (e *Ending) SetupWithManager(mgr ctrl.Manager) error {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	// deletion is the resource version of the deletion of a ShadowPod, if the change is one.
	changed := func(ctx context.Context, object client.Object, deletion string, queue requests) {
		list := &offloadingv1beta1.QuotaList{}
		user := object.GetLabels()[offloadingv1beta1.CreatorUserLabel]
		if user == "" {
			return
		}
		if err := e.Client.List(ctx, list); err != nil {
			// Listing from the cache fails only while the process stops.
			ctrl.LoggerFrom(ctx).Error(err, "Listing Quotas failed")
		}
		isCounted := false
		for i := range list.Items {
			if quota.LabelValue(list.Items[i].Spec.User) != user {
				continue
			}
			isCounted = true
			key := client.ObjectKeyFromObject(&list.Items[i])
			e.note(key, deletion)
			queue.AddAfter(reconcile.Request{NamespacedName: key}, endingDelay)
		}
		if !isCounted {
			e.enqueueConsumer(ctx, object, queue)
		}
	}
	isEnding := func(ctx context.Context, pod client.Object, queue requests) {
		if pod.GetDeletionTimestamp() != nil {
			changed(ctx, pod, "", queue)
		}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("quota-ending").
		For(&offloadingv1beta1.Quota{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.Funcs{UpdateFunc: abandonedChanged},
		))).
		// With a Quota, its user's pods begin or cease to count in the others.
		Watches(&offloadingv1beta1.Quota{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, ev event.CreateEvent, q requests) {
				if !ev.IsInInitialList {
					e.enqueueConsumer(ctx, ev.Object, q)
				}
			},
			DeleteFunc: func(ctx context.Context, ev event.DeleteEvent, q requests) { e.enqueueConsumer(ctx, ev.Object, q) },
		}).
		Watches(&offloadingv1beta1.ShadowPod{}, handler.Funcs{
			UpdateFunc: func(ctx context.Context, ev event.UpdateEvent, q requests) {
				if statusChanged(ev) {
					changed(ctx, ev.ObjectNew, "", q)
				}
			},
			DeleteFunc: func(ctx context.Context, ev event.DeleteEvent, q requests) {
				deletion := ev.Object.GetResourceVersion()
				if ev.DeleteStateUnknown {
					deletion = "" // It is that of a change before.
				}
				changed(ctx, ev.Object, deletion, q)
			},
		}).
		Watches(&corev1.Pod{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, ev event.CreateEvent, q requests) { isEnding(ctx, ev.Object, q) },
			UpdateFunc: func(ctx context.Context, ev event.UpdateEvent, q requests) { isEnding(ctx, ev.ObjectNew, q) },
			DeleteFunc: func(ctx context.Context, ev event.DeleteEvent, q requests) { changed(ctx, ev.Object, "", q) },
		}).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), e))
}

// enqueueConsumer enqueues the Quotas of the consumer that an object belongs to.
func (e *Ending) enqueueConsumer(ctx context.Context, object client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	quotas, err := quota.OfConsumer(ctx, e.Client, object.GetNamespace())
	if err != nil {
		// Reading from the cache fails only while the process stops.
		ctrl.LoggerFrom(ctx).Error(err, "Finding the Quotas of a consumer failed", "namespace", object.GetNamespace())
	}
	for i := range quotas {
		queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&quotas[i])}, endingDelay)
	}
}

// abandonedChanged reports whether another process has written what this one writes: an earlier version of the webhook
// drops it.
func abandonedChanged(ev event.UpdateEvent) bool {
	before, okBefore := ev.ObjectOld.(*offloadingv1beta1.Quota)
	after, okAfter := ev.ObjectNew.(*offloadingv1beta1.Quota)
	return okBefore && okAfter && !quantity.Equal(before.Status.Abandoned, after.Status.Abandoned)
}

// statusChanged reports whether a ShadowPod may count for other resources than before.
func statusChanged(ev event.UpdateEvent) bool {
	before, okBefore := ev.ObjectOld.(*offloadingv1beta1.ShadowPod)
	after, okAfter := ev.ObjectNew.(*offloadingv1beta1.ShadowPod)
	return okBefore && okAfter && (before.Status.Phase != after.Status.Phase || !quantity.Equal(before.Status.Requests, after.Status.Requests))
}

// note remembers the resource version of a deletion, if it is one.
func (e *Ending) note(grant types.NamespacedName, deletion string) {
	version, err := strconv.ParseUint(deletion, 10, 64)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.deleted == nil {
		e.deleted = map[types.NamespacedName]uint64{}
	}
	e.deleted[grant] = max(e.deleted[grant], version)
}

// newestDeletion returns the resource version until which what is listed afterwards knows of the deletions of
// the ShadowPods of a Quota's user.
func (e *Ending) newestDeletion(grant *offloadingv1beta1.Quota) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	newest, isNoted := e.deleted[client.ObjectKeyFromObject(grant)]
	written, err := strconv.ParseUint(grant.Status.EndingResourceVersion, 10, 64)
	if !isNoted || err == nil && written >= newest {
		return grant.Status.EndingResourceVersion
	}
	return strconv.FormatUint(newest, 10)
}

// forget forgets the deletions that were written.
func (e *Ending) forget(grant types.NamespacedName, written string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if version, err := strconv.ParseUint(written, 10, 64); err == nil && e.deleted[grant] <= version {
		delete(e.deleted, grant)
	}
}

// Reconcile writes what the pods of a Quota's user hold whose ShadowPods are gone, and the consumer's whose ResourceSlices
// are.
func (e *Ending) Reconcile(ctx context.Context, grant *offloadingv1beta1.Quota) (ctrl.Result, error) {
	newest := e.newestDeletion(grant)
	ending, err := quota.Ending(ctx, e.Client, grant.Spec.User)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("counting the pods that end: %w", err)
	}
	abandoned, err := quota.Abandoned(ctx, e.Client, grant.Namespace, grant.Spec.User)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("counting what no Quota counts: %w", err)
	}
	granted := grant.Spec.Resources
	if err := e.write(ctx, grant, quota.Within(granted, ending), quota.Within(granted, abandoned), newest); err != nil {
		return ctrl.Result{}, err
	}
	e.forget(client.ObjectKeyFromObject(grant), newest)
	return ctrl.Result{}, nil
}

func (e *Ending) write(ctx context.Context, grant *offloadingv1beta1.Quota, held, abandoned corev1.ResourceList, newest string) error {
	if quantity.Equal(grant.Status.Ending, held) && quantity.Equal(grant.Status.Abandoned, abandoned) && grant.Status.EndingResourceVersion == newest {
		return nil
	}
	patch, err := mergePatch(map[string]any{
		"metadata": map[string]any{"uid": grant.UID}, "status": map[string]any{
			"ending": replacement(grant.Status.Ending, held), "endingResourceVersion": newest,
			"abandoned": replacement(grant.Status.Abandoned, abandoned),
		},
	})
	if err != nil {
		return err
	}
	if err := e.Client.Status().Patch(ctx, grant, patch, client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Quota %s/%s: %w", grant.Namespace, grant.Name, err)
	}
	return nil
}
