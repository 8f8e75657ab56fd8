package shadowpod

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/fair"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/provider/quota"
)

// endingDelay is how long pods that end count nothing: the default grace period. So the deletion of usual
// pods costs no write.
const endingDelay = 30 * time.Second

// Ending counts, in the status of Quotas, what pods hold whose ShadowPods are gone. Without it, a consumer
// could use its grant again and again: its pods may ignore the signal to end, and it chooses how long their
// kubelets wait.
type Ending struct {
	Client client.Client
	Clock  clock.PassiveClock
}

// SetupWithManager watches the pods of ShadowPods.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=quotas/status,verbs=patch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=shadowpods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
func (e *Ending) SetupWithManager(mgr ctrl.Manager) error {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	changed := func(ctx context.Context, pod client.Object, after time.Duration, queue requests) {
		list := &offloadingv1beta1.QuotaList{}
		user := pod.GetLabels()[offloadingv1beta1.CreatorUserLabel]
		if pod.GetDeletionTimestamp() == nil || user == "" {
			return
		}
		if err := e.Client.List(ctx, list); err != nil {
			// Listing from the cache fails only while the process stops.
			ctrl.LoggerFrom(ctx).Error(err, "Listing Quotas failed")
		}
		for i := range list.Items {
			if quota.LabelValue(list.Items[i].Spec.User) != user {
				continue
			}
			queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}, after)
		}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("quota-ending").
		For(&offloadingv1beta1.Quota{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, ev event.CreateEvent, q requests) {
				changed(ctx, ev.Object, e.left(ev.Object), q)
			},
			UpdateFunc: func(ctx context.Context, ev event.UpdateEvent, q requests) {
				changed(ctx, ev.ObjectNew, e.left(ev.ObjectNew), q)
			},
			DeleteFunc: func(ctx context.Context, ev event.DeleteEvent, q requests) {
				if e.left(ev.Object) == 0 { // It counts.
					changed(ctx, ev.Object, time.Second, q)
				}
			},
		}).
		WithOptions(fair.Options(mgr.GetClient(), 1)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), e))
}

// left returns how long a pod that is being deleted counts nothing yet.
func (e *Ending) left(pod client.Object) time.Duration {
	at := pod.GetDeletionTimestamp()
	if at == nil {
		return 0
	}
	// In seconds, of which there may be more than a Duration has room for.
	asked := at.Unix() - max(ptr.Deref(pod.GetDeletionGracePeriodSeconds(), 0), 0)
	left := asked + int64(endingDelay/time.Second) - e.Clock.Now().Unix()
	return time.Duration(min(max(left, 0), int64(endingDelay/time.Second))) * time.Second
}

// Reconcile writes what the pods of a Quota's user hold that have not ended.
func (e *Ending) Reconcile(ctx context.Context, grant *offloadingv1beta1.Quota) (ctrl.Result, error) {
	pods := &corev1.PodList{}
	err := e.Client.List(ctx, pods, client.MatchingLabels{offloadingv1beta1.CreatorUserLabel: quota.LabelValue(grant.Spec.User)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the pods of user %q: %w", grant.Spec.User, err)
	}
	var ending []*corev1.Pod
	next := time.Duration(0)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp == nil {
			continue
		}
		if left := e.left(pod); left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		counts, err := e.counts(ctx, pod)
		if err != nil {
			return ctrl.Result{}, err
		}
		if counts {
			ending = append(ending, pod)
		}
	}
	return ctrl.Result{RequeueAfter: next}, e.write(ctx, grant, quota.HeldBy(ending))
}

// counts reports whether a pod runs for no ShadowPod. One that has its ShadowPod counts with it.
func (e *Ending) counts(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if podend.IsTerminal(pod.Status.Phase) {
		return false, nil
	}
	shadow := &offloadingv1beta1.ShadowPod{}
	err := e.Client.Get(ctx, client.ObjectKeyFromObject(pod), shadow)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading ShadowPod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	for _, owner := range pod.OwnerReferences {
		if err == nil && owner.UID == shadow.UID {
			return false, nil
		}
	}
	return true, nil
}

func (e *Ending) write(ctx context.Context, grant *offloadingv1beta1.Quota, held corev1.ResourceList) error {
	if quantity.Equal(grant.Status.Ending, held) {
		return nil
	}
	patch, err := mergePatch(map[string]any{
		"metadata": map[string]any{"uid": grant.UID}, "status": map[string]any{"ending": replacement(grant.Status.Ending, held)},
	})
	if err != nil {
		return err
	}
	if err := e.Client.Status().Patch(ctx, grant, patch, client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Quota %s/%s: %w", grant.Namespace, grant.Name, err)
	}
	return nil
}
