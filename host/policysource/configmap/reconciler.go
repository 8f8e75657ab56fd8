// Package configmap is the short way to load a policy: for every ConfigMap of
// Longshore's own namespace that is labeled longshore.dev/policy=true it keeps an
// OffloadingPolicy of the same name, whose module is the ConfigMap's. Components load
// the OffloadingPolicy; this package only writes it (ADR 8).
//
// An OffloadingPolicy that is kept so carries a label: a namespaced object cannot own a
// cluster-scoped one. One without the label belongs to somebody else and is not touched.
package configmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// labelValue is that of [policyv1alpha1.PolicyLabel] on ConfigMaps that are policies.
const labelValue = "true"

// catchUp is how long the cache is given to show what was written meanwhile. Components
// write the status of a policy when its ConfigMap changes, so this is nothing unusual.
const catchUp = 50 * time.Millisecond

// Selector selects the ConfigMaps that are policies: all that the cache needs to hold.
func Selector() client.MatchingLabels {
	return client.MatchingLabels{policyv1alpha1.PolicyLabel: labelValue}
}

// Selected tells whether a ConfigMap carries the label.
func Selected(source *corev1.ConfigMap) bool {
	return source.Labels[policyv1alpha1.PolicyLabel] == labelValue
}

// Reconciler keeps OffloadingPolicies of labeled ConfigMaps.
type Reconciler struct {
	// Client reads from a cache and writes OffloadingPolicies.
	Client client.Client
	// Events records on the ConfigMap what is wrong with it.
	Events events.EventRecorder
	// Namespace is Longshore's own: ConfigMaps elsewhere are no policies.
	Namespace string
}

// SetupWithManager adds the Reconciler to a manager; the leader runs it. The right to
// read ConfigMaps is the chart's: a Role of the own namespace.
//
// +kubebuilder:rbac:groups=policy.longshore.dev,resources=offloadingpolicies,verbs=get;list;watch;create;update;delete
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == r.Namespace })
	// A policy leads to the ConfigMap of its name, kept or not: once a stranger's policy
	// is gone, the ConfigMap's takes its place.
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

// Reconcile brings the OffloadingPolicy of one name in line with its ConfigMap. What was
// decided about an object that has changed since is decided again.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	err := r.align(ctx, request)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("Looking again, since the policy has changed meanwhile", "policy", request.Name, "reason", err.Error())
		return ctrl.Result{RequeueAfter: catchUp}, nil
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
	case source == nil && exists && Kept(policy):
		return r.remove(ctx, policy)
	case source == nil:
		return nil
	case exists && !Kept(policy):
		return r.refuse(source, &Problem{Reason: ReasonNameTaken, Err: fmt.Errorf(
			"OffloadingPolicy %q exists and was not made from this ConfigMap, so it stays as it is: delete it, or give the ConfigMap another name", policy.Name)})
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
	if refused(err) {
		return r.refuse(source, &Problem{Reason: ReasonRefused, Err: err})
	}
	return err
}

// source returns the ConfigMap if it is there and means to be a policy, else nil.
func (r *Reconciler) source(ctx context.Context, request ctrl.Request) (*corev1.ConfigMap, error) {
	source := &corev1.ConfigMap{}
	err := r.Client.Get(ctx, request.NamespacedName, source)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", request.NamespacedName, err)
	}
	if source.Namespace != r.Namespace || !Selected(source) || !source.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return source, nil
}

// Kept tells whether a policy is kept from a ConfigMap.
func Kept(policy *policyv1alpha1.OffloadingPolicy) bool {
	return policy.Labels[policyv1alpha1.ManagedByLabel] == policyv1alpha1.ManagedByConfigMap
}

func (r *Reconciler) create(ctx context.Context, name string, spec *policyv1alpha1.OffloadingPolicySpec) error {
	policy := &policyv1alpha1.OffloadingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{policyv1alpha1.ManagedByLabel: policyv1alpha1.ManagedByConfigMap}},
		Spec:       *spec,
	}
	ctrl.LoggerFrom(ctx).Info("Creating policy of ConfigMap", "policy", name)
	// One that exists meanwhile is looked at again, with the question whose it is.
	if err := r.Client.Create(ctx, policy); err != nil {
		return fmt.Errorf("creating OffloadingPolicy %q: %w", name, err)
	}
	return nil
}

func (r *Reconciler) update(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy, spec *policyv1alpha1.OffloadingPolicySpec) error {
	same, err := equal(&policy.Spec, spec)
	if same || err != nil {
		return err
	}
	changed := policy.DeepCopy()
	changed.Spec = *spec
	ctrl.LoggerFrom(ctx).Info("Changing policy to what its ConfigMap says", "policy", policy.Name)
	// The deletion of one that is gone wakes us.
	if err := r.Client.Update(ctx, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing OffloadingPolicy %q: %w", policy.Name, err)
	}
	return nil
}

// remove deletes the policy that was read, and no later one of its name. Nor in a later
// state: somebody who takes the label off makes it theirs, under the same UID. So the
// resource version counts too, although a mere report in the status changes it.
func (r *Reconciler) remove(ctx context.Context, policy *policyv1alpha1.OffloadingPolicy) error {
	if !policy.DeletionTimestamp.IsZero() {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Deleting policy whose ConfigMap is gone", "policy", policy.Name)
	err := r.Client.Delete(ctx, policy, client.Preconditions{UID: &policy.UID, ResourceVersion: &policy.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting OffloadingPolicy %q: %w", policy.Name, err)
	}
	return nil
}

// refused tells an answer of the API server that only another ConfigMap changes.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// refuse says on the ConfigMap what is wrong; nothing but a change of it, or of the
// policy in its way, helps.
func (r *Reconciler) refuse(source *corev1.ConfigMap, problem *Problem) error {
	r.Events.Eventf(source, nil, corev1.EventTypeWarning, problem.Reason, actionLoad, "%s", problem.Err.Error())
	return reconcile.TerminalError(fmt.Errorf("refusing ConfigMap %s/%s as a policy: %w", source.Namespace, source.Name, problem.Err))
}

// equal compares what the API server would store.
func equal(a, b *policyv1alpha1.OffloadingPolicySpec) (bool, error) {
	var decoded [2]any
	for i, spec := range []*policyv1alpha1.OffloadingPolicySpec{a, b} {
		raw, err := json.Marshal(spec)
		if err == nil {
			err = json.Unmarshal(raw, &decoded[i])
		}
		if err != nil {
			return false, errors.Join(errors.New("comparing specs of OffloadingPolicies"), err)
		}
	}
	return reflect.DeepEqual(decoded[0], decoded[1]), nil
}
