// Package status writes the status of OffloadingPolicies: it summarizes the PolicyComponents
// in which the components report by which versions they decide. It also keeps the annotation
// that records which version of a policy was enforced last. The manager runs it; components
// read the annotation and never the status.
package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/kit/retry"
	"github.com/longshore-dev/longshore/host/policysource/plan"
	"github.com/longshore-dev/longshore/host/policysource/report"
)

const (
	// gatherPeriod is how long a reconciliation waits for further reports, so that a change
	// that all components follow costs few writes.
	gatherPeriod = 50 * time.Millisecond
	// lagPatience is how long components may be behind without a problem before the status
	// says so.
	lagPatience = time.Second
	// ownerCheckPeriod is how often the Pods of components that are behind are checked.
	ownerCheckPeriod = 30 * time.Second
	// actionSummarize is the action of the events.
	actionSummarize = "Summarize"
)

// all is the only request: a reconciliation is about all policies and components.
var all = reconcile.Request{NamespacedName: types.NamespacedName{Name: "policies"}}

// Reconciler writes the status of OffloadingPolicies.
type Reconciler struct {
	// Client reads from a cache and writes.
	Client client.Client
	// APIReader reads the Pods of components that are behind.
	APIReader client.Reader
	// Events on OffloadingPolicies.
	Events events.EventRecorder
	// Clock is the source of the conditions' times.
	Clock clock.PassiveClock

	// behindSince has the time since which components are behind without a problem.
	behindSince map[types.UID]time.Time
}

// SetupWithManager adds the Reconciler to a manager; the leader runs it.
//
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=offloadingpolicies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=offloadingpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=policycomponents,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(q queue) { q.AddAfter(all, gatherPeriod) }
	err := ctrl.NewControllerManagedBy(mgr).
		Named("policystatus").
		Watches(&policyv1alpha1.OffloadingPolicy{}, handler.Funcs{
			CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { enqueue(q) },
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
				// The status has no other writer.
				const key = policyv1alpha1.EnforcedAnnotation
				if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
					e.ObjectOld.GetAnnotations()[key] != e.ObjectNew.GetAnnotations()[key] {
					enqueue(q)
				}
			},
		}).
		Watches(&policyv1alpha1.PolicyComponent{}, handler.Funcs{
			CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { enqueue(q) },
			UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { enqueue(q) },
			DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { enqueue(q) },
		}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1, RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of policies' status: %w", err)
	}
	return nil
}

// Reconcile writes the status and the annotation of each policy for which they have changed.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	policies, components := &policyv1alpha1.OffloadingPolicyList{}, &policyv1alpha1.PolicyComponentList{}
	if err := r.Client.List(ctx, policies); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing OffloadingPolicies: %w", err)
	}
	if err := r.Client.List(ctx, components); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing PolicyComponents: %w", err)
	}
	known, behind := components.Items[:0], false
	var errs []error
	for i := range components.Items {
		c := &components.Items[i]
		if isBehind(c, policies.Items) {
			behind = true
			removed, err := r.removeIfEnded(ctx, c)
			errs = append(errs, err)
			if removed {
				continue
			}
		}
		known = append(known, *c)
	}
	result := ctrl.Result{}
	if behind {
		result.RequeueAfter = ownerCheckPeriod
	}
	before := r.behindSince
	r.behindSince = map[types.UID]time.Time{}
	for i := range policies.Items {
		policy := &policies.Items[i]
		if policy.DeletionTimestamp != nil {
			continue
		}
		wait, err := r.reconcile(ctx, policy, known, before[policy.UID])
		errs = append(errs, err)
		if wait > 0 && (result.RequeueAfter == 0 || wait < result.RequeueAfter) {
			result.RequeueAfter = wait
		}
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// reconcile writes what has changed of one policy. If components have been behind only for a
// short time, it writes nothing and returns when to try again.
func (r *Reconciler) reconcile(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, components []policyv1alpha1.PolicyComponent, behindSince time.Time) (time.Duration, error) {
	// The record comes first: a policy that is ready has one.
	if err := r.recordEnforced(ctx, policy, components); err != nil {
		return 0, err
	}
	status := Summarize(policy, components)
	condition := status.Conditions[0]
	if condition.Reason == ReasonBehind {
		if behindSince.IsZero() {
			behindSince = r.Clock.Now()
		}
		r.behindSince[policy.UID] = behindSince
		if wait := lagPatience - r.Clock.Since(behindSince); wait > 0 {
			return wait, nil
		}
	}
	condition.LastTransitionTime = metav1.NewTime(r.Clock.Now())
	status.Conditions = nil
	if current := meta.FindStatusCondition(policy.Status.Conditions, condition.Type); current != nil {
		status.Conditions = []metav1.Condition{*current}
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	if equality.Semantic.DeepEqual(policy.Status, status) {
		return 0, nil
	}
	changed := policy.DeepCopy()
	changed.Status = status
	err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(policy))
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("writing the status of policy %q: %w", policy.Name, err)
	}
	r.recordEvent(policy, &status)
	return 0, nil
}

// recordEnforced keeps the annotation that records the version that was enforced last.
func (r *Reconciler) recordEnforced(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, components []policyv1alpha1.PolicyComponent) error {
	record, err := EnforcedRecord(policy, components)
	if err != nil || record == policy.Annotations[policyv1alpha1.EnforcedAnnotation] {
		return err
	}
	var value any // A null in a merge patch removes the annotation.
	if record != "" {
		value = record
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{policyv1alpha1.EnforcedAnnotation: value}}})
	if err != nil {
		return fmt.Errorf("encoding the annotation of policy %q: %w", policy.Name, err)
	}
	target := &policyv1alpha1.OffloadingPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	if err := r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("recording the enforced version of policy %q: %w", policy.Name, err)
	}
	return nil
}

// recordEvent records that the policy became ready with a module, or has a problem.
func (r *Reconciler) recordEvent(policy *policyv1alpha1.OffloadingPolicy, status *policyv1alpha1.OffloadingPolicyStatus) {
	before, after := meta.FindStatusCondition(policy.Status.Conditions, policyv1alpha1.ReadyCondition), &status.Conditions[0]
	if before != nil && before.Reason == after.Reason && policy.Status.Digest == status.Digest {
		return
	}
	kind, note := corev1.EventTypeWarning, after.Message
	switch after.Reason {
	case ReasonBehind, ReasonNoComponents, report.ReasonLoading:
		return
	case plan.ReasonModuleNotFound:
		// The manager deletes such a policy together with its ConfigMap.
		if policy.Labels[policyv1alpha1.ManagedByLabel] == policyv1alpha1.ManagedByConfigMap {
			return
		}
	case ReasonBound, ReasonShadow:
		kind = corev1.EventTypeNormal
		if m := status.Manifest; m != nil {
			note += fmt.Sprintf(" Module %s %s (%s) answers %v.", m.Name, m.Version, status.ShortDigest, status.Points)
		}
	case ReasonDisabled:
		kind = corev1.EventTypeNormal
	}
	r.Events.Eventf(policy, nil, kind, after.Reason, actionSummarize, "%s", note)
}

// isBehind reports whether a component does not decide by the current generation of a policy.
func isBehind(c *policyv1alpha1.PolicyComponent, policies []policyv1alpha1.OffloadingPolicy) bool {
	for i := range policies {
		if o := observe(&policies[i], []policyv1alpha1.PolicyComponent{*c})[0]; !isCurrent(&policies[i], &o) {
			return true
		}
	}
	return false
}

// removeIfEnded deletes the PolicyComponent of a Pod that has ended, for example after an
// eviction: the garbage collector keeps it as long as the Pod object exists.
func (r *Reconciler) removeIfEnded(ctx context.Context, c *policyv1alpha1.PolicyComponent) (bool, error) {
	for _, owner := range c.OwnerReferences {
		if owner.Kind != "Pod" {
			continue
		}
		pod := &corev1.Pod{}
		err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: owner.Name}, pod)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading pod %s/%s of PolicyComponent %s: %w", c.Namespace, owner.Name, c.Name, err)
		}
		runs := err == nil && pod.UID == owner.UID && !podend.IsTerminal(pod.Status.Phase)
		if runs {
			continue
		}
		err = r.Client.Delete(ctx, c, client.Preconditions{UID: &c.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return false, fmt.Errorf("deleting PolicyComponent %s/%s: %w", c.Namespace, c.Name, err)
		}
		return true, nil
	}
	return false, nil
}
