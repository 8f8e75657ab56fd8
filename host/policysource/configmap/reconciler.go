// Package configmap keeps an OffloadingPolicy for every ConfigMap of Longshore's namespace
// that is labeled longshore.dev/policy=true. The policy has the name and the module of the
// ConfigMap. Components load the OffloadingPolicy; this package only writes it. Policies need a
// status, an order and a form for GitOps tools, and the first one should need one command only.
//
// A managed OffloadingPolicy has a label, since a namespaced object cannot own a
// cluster-scoped one. A policy without the label is unmanaged and is not changed.
package configmap

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// labelValue is the value of [policyv1alpha1.PolicyLabel] on ConfigMaps that are policies.
const labelValue = "true"

// conflictRetry is the delay after a conflict. Conflicts are usual: the manager writes the
// status of a policy when its ConfigMap changes.
const conflictRetry = 50 * time.Millisecond

// Selector selects the ConfigMaps that are policies.
func Selector() client.MatchingLabels {
	return client.MatchingLabels{policyv1alpha1.PolicyLabel: labelValue}
}

// IsSelected reports whether a ConfigMap has the label.
func IsSelected(source *corev1.ConfigMap) bool {
	return source.Labels[policyv1alpha1.PolicyLabel] == labelValue
}

// Reconciler keeps the OffloadingPolicies of labeled ConfigMaps.
type Reconciler struct {
	// Client reads from a cache and writes OffloadingPolicies.
	Client client.Client
	// Events on ConfigMaps that cannot be policies.
	Events events.EventRecorder
	// Namespace is Longshore's own namespace; ConfigMaps of others are ignored.
	Namespace string
}

// SetupWithManager adds the Reconciler to a manager; the leader runs it. A Role of the chart
// lets it read the ConfigMaps of its namespace.
//
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=offloadingpolicies,verbs=get;list;watch;create;update;delete
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == r.Namespace })
	// Unmanaged policies count as well: after the deletion of one, the ConfigMap's policy is
	// created.
	sameName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: o.GetName()}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("policyconfigmap").
		For(&corev1.ConfigMap{}, builder.WithPredicates(own)).
		Watches(&policyv1alpha1.OffloadingPolicy{}, sameName, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of policy ConfigMaps: %w", err)
	}
	return nil
}

// Reconcile brings the OffloadingPolicy of a name in line with its ConfigMap. It is repeated
// after a conflict.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	err := r.align(ctx, request)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("Cache is stale, requeueing", "policy", request.Name, "reason", err.Error())
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{}, err
}

func (r *Reconciler) align(ctx context.Context, request ctrl.Request) error {
	source, err := r.source(ctx, request)
	if err != nil {
		return err
	}
	policy := &policyv1alpha1.OffloadingPolicy{}
	err = r.Client.Get(ctx, client.ObjectKey{Name: request.Name}, policy)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading OffloadingPolicy %q: %w", request.Name, err)
	}
	exists := err == nil
	switch {
	case source == nil && exists && IsManaged(policy):
		return r.delete(ctx, policy)
	case source == nil:
		return nil
	case exists && !IsManaged(policy):
		return r.refuse(source, &Problem{Reason: ReasonNameTaken, Err: fmt.Errorf(
			"OffloadingPolicy %q exists and is not managed by Longshore: delete it, or give the ConfigMap another name", policy.Name)})
	}
	spec, bad := Spec(source)
	if bad != nil {
		return r.refuse(source, bad)
	}
	if exists {
		err = r.update(ctx, policy, spec)
	} else {
		err = r.create(ctx, source.Name, spec)
	}
	if isRefused(err) {
		return r.refuse(source, &Problem{Reason: ReasonRefused, Err: err})
	}
	return err
}

// source returns the ConfigMap if it exists and is a policy, else nil.
func (r *Reconciler) source(ctx context.Context, request ctrl.Request) (*corev1.ConfigMap, error) {
	source := &corev1.ConfigMap{}
	err := r.Client.Get(ctx, request.NamespacedName, source)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", request.NamespacedName, err)
	}
	if source.Namespace != r.Namespace || !IsSelected(source) || !source.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return source, nil
}

// IsManaged reports whether a policy is kept from a ConfigMap.
func IsManaged(policy *policyv1alpha1.OffloadingPolicy) bool {
	return policy.Labels[policyv1alpha1.ManagedByLabel] == policyv1alpha1.ManagedByConfigMap
}

func (r *Reconciler) create(ctx context.Context, name string, spec *policyv1alpha1.OffloadingPolicySpec) error {
	policy := &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{policyv1alpha1.ManagedByLabel: policyv1alpha1.ManagedByConfigMap}},
		Spec:       *spec,
	}
	ctrl.LoggerFrom(ctx).Info("Creating OffloadingPolicy of ConfigMap", "policy", name)
	if err := r.Client.Create(ctx, policy); err != nil {
		return fmt.Errorf("creating OffloadingPolicy %q: %w", name, err)
	}
	return nil
}

func (r *Reconciler) update(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, spec *policyv1alpha1.OffloadingPolicySpec) error {
	if equality.Semantic.DeepEqual(&policy.Spec, spec) {
		return nil
	}
	changed := policy.DeepCopy()
	changed.Spec = *spec
	ctrl.LoggerFrom(ctx).Info("Updating OffloadingPolicy of ConfigMap", "policy", policy.Name)
	// The event of a deletion requeues the policy.
	if err := r.Client.Update(ctx, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating OffloadingPolicy %q: %w", policy.Name, err)
	}
	return nil
}

// delete deletes the policy in the state that was read. A later state may be unmanaged, so the
// resource version is a precondition, although a write of the status changes it too.
func (r *Reconciler) delete(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy) error {
	if !policy.DeletionTimestamp.IsZero() {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Deleting OffloadingPolicy without a ConfigMap", "policy", policy.Name)
	err := r.Client.Delete(ctx, policy, client.Preconditions{UID: &policy.UID, ResourceVersion: &policy.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting OffloadingPolicy %q: %w", policy.Name, err)
	}
	return nil
}

// isRefused reports whether the API server would refuse the policy again.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// refuse records an event on the ConfigMap. It returns a terminal error: only a change of the
// ConfigMap, or of a policy of its name, helps.
func (r *Reconciler) refuse(source *corev1.ConfigMap, problem *Problem) error {
	r.Events.Eventf(source, nil, corev1.EventTypeWarning, problem.Reason, actionLoad, "%s", problem.Err.Error())
	return reconcile.TerminalError(fmt.Errorf("refusing ConfigMap %s/%s as a policy: %w", source.Namespace, source.Name, problem.Err))
}
