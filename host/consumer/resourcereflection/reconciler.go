// Package resourcereflection writes the status of ResourceReflections, which virtual kubelets
// report in their PolicyComponents, and keeps a deleted ResourceReflection until the virtual
// kubelets have deleted the remote objects. The manager runs it.
package resourcereflection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// actionSummarize is the action of the events.
const actionSummarize = "Summarize"

// Reconciler writes the status of ResourceReflections.
type Reconciler struct {
	// Client reads from a cache and writes.
	Client client.Client
	// Events on ResourceReflections.
	Events events.EventRecorder
	// Clock is the source of the conditions' times.
	Clock clock.PassiveClock
}

// SetupWithManager adds the Reconciler to a manager; the leader runs it.
//
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=resourcereflections,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=resourcereflections/status,verbs=patch
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=policycomponents,verbs=get;list;watch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("resourcereflection").
		For(&policyv1alpha1.ResourceReflection{}).
		Watches(&policyv1alpha1.PolicyComponent{}, handler.EnqueueRequestsFromMapFunc(requests)).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of ResourceReflections: %w", err)
	}
	return nil
}

// requests returns the ResourceReflections that a component reports. An observation that is gone
// is in the old object of an update, which is mapped too.
func requests(_ context.Context, object client.Object) []reconcile.Request {
	component, ok := object.(*policyv1alpha1.PolicyComponent)
	if !ok {
		return nil
	}
	out := make([]reconcile.Request, len(component.Status.Reflections))
	for i := range component.Status.Reflections {
		out[i].Name = component.Status.Reflections[i].Name
	}
	return out
}

// Reconcile writes the status, and adds and removes the finalizer.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	reflection, components := &policyv1alpha1.ResourceReflection{}, &policyv1alpha1.PolicyComponentList{}
	if err := r.Client.Get(ctx, request.NamespacedName, reflection); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading ResourceReflection %q: %w", request.Name, err)
	}
	if err := r.Client.List(ctx, components); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing PolicyComponents: %w", err)
	}
	status := Summarize(reflection, components.Items)
	if err := r.writeStatus(ctx, reflection, status); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.keepFinalizer(ctx, reflection, isReflected(&status))
}

// keepFinalizer adds the finalizer, or removes it from a deleted object that no virtual kubelet
// reflects.
func (r *Reconciler) keepFinalizer(ctx context.Context, reflection *policyv1alpha1.ResourceReflection, isReflected bool) error {
	changed := reflection.DeepCopy()
	isChanged := false
	switch {
	case reflection.DeletionTimestamp == nil:
		isChanged = controllerutil.AddFinalizer(changed, policyv1alpha1.ResourceReflectionFinalizer)
	case !isReflected:
		isChanged = controllerutil.RemoveFinalizer(changed, policyv1alpha1.ResourceReflectionFinalizer)
	}
	if !isChanged {
		return nil
	}
	patch := client.MergeFromWithOptions(reflection, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the finalizer of ResourceReflection %q: %w", reflection.Name, err)
	}
	return nil
}

func (r *Reconciler) writeStatus(ctx context.Context, reflection *policyv1alpha1.ResourceReflection, status policyv1alpha1.ResourceReflectionStatus) error {
	conditions := status.Conditions
	status.Conditions = nil
	for _, condition := range conditions {
		if current := meta.FindStatusCondition(reflection.Status.Conditions, condition.Type); current != nil {
			status.Conditions = append(status.Conditions, *current)
		}
		condition.LastTransitionTime = metav1.NewTime(r.Clock.Now())
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	if equality.Semantic.DeepEqual(reflection.Status, status) {
		return nil
	}
	changed := reflection.DeepCopy()
	changed.Status = status
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(reflection)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of ResourceReflection %q: %w", reflection.Name, err)
	}
	r.recordEvents(reflection, status.Conditions)
	// The finalizer is written on this resource version.
	reflection.ResourceVersion = changed.ResourceVersion
	return nil
}

// recordEvents records conditions that have changed.
func (r *Reconciler) recordEvents(reflection *policyv1alpha1.ResourceReflection, conditions []metav1.Condition) {
	for i := range conditions {
		condition := &conditions[i]
		before := meta.FindStatusCondition(reflection.Status.Conditions, condition.Type)
		isSame := before != nil && before.Reason == condition.Reason && before.Message == condition.Message
		if isSame || condition.Reason == ReasonNotObserved || condition.Reason == ReasonMatches && before == nil {
			continue
		}
		kind := corev1.EventTypeNormal
		if condition.Status == metav1.ConditionFalse && reflection.DeletionTimestamp == nil {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(reflection, nil, kind, condition.Reason, actionSummarize, "%s", condition.Message)
	}
}
