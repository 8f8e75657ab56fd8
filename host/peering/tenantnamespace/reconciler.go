// Package tenantnamespace gives the manager, the replicator and the hook of helm uninstall their rights
// in tenant namespaces. They read and write Secrets there, nonces, certificates and
// kubeconfigs, and in no other namespace of users.
package tenantnamespace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
	"github.com/longshore-dev/longshore/host/peering/authentication"
	"github.com/longshore-dev/longshore/host/peering/tenantsecrets"
)

const (
	// Role is the ClusterRole that the manager gets in tenant namespaces; RoleBindings have its
	// name.
	Role = "longshore-manager-tenant-namespace"
	// Finalizer keeps a RoleBinding while the rights are needed to withdraw what is in its
	// namespace: the deletion of a namespace deletes all objects in it at once.
	Finalizer = "longshore.dev/tenant-namespace"
)

// Reconciler binds Role in each tenant namespace. Its keys are names of namespaces.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=authentication.liqo.io,resources=identities;tenants;resourceslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=longshore-manager-tenant-namespace,verbs=bind
type Reconciler struct {
	Client client.Client
	// ServiceAccounts get the rights: that of the manager, that of the replicator if it runs in a
	// process of its own, and that of the hook that withdraws the cluster.
	ServiceAccounts []client.ObjectKey
}

// SetupWithManager registers watches on namespaces, on the RoleBindings in them, and on the
// objects that hold them.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	ofNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: object.GetNamespace()}}}
	})
	isRole := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == Role })
	existence := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
	return ctrl.NewControllerManagedBy(mgr).Named("tenantnamespace").
		For(&corev1.Namespace{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&rbacv1.RoleBinding{}, ofNamespace, builder.WithPredicates(isRole)).
		Watches(&corev1.Secret{}, ofNamespace, builder.WithPredicates(holdingChanges())).
		Watches(&offloadingv1beta1.VirtualNode{}, ofNamespace, existence).
		Watches(&authv1beta1.Identity{}, ofNamespace, existence).
		Watches(&authv1beta1.Tenant{}, ofNamespace, existence).
		Watches(&authv1beta1.ResourceSlice{}, ofNamespace, existence).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

// holdingChanges accepts Secrets that hold the rights, or did before an update.
func holdingChanges() predicate.Predicate {
	changes := func(object client.Object) bool { return IsHolding(object, true) }
	p := predicate.NewPredicateFuncs(changes)
	p.UpdateFunc = func(e event.UpdateEvent) bool {
		return changes(e.ObjectOld) != changes(e.ObjectNew) || IsHolding(e.ObjectOld, false) != IsHolding(e.ObjectNew, false)
	}
	return p
}

// IsHolding reports whether a Secret must be changed before it is gone: the replicator sets a
// finalizer on the kubeconfig of a control plane in a tenant namespace.
func IsHolding(secret client.Object, isTenant bool) bool {
	return controllerutil.ContainsFinalizer(secret, liqocorev1beta1.ReplicatorSecretFinalizer) ||
		isTenant && secret.GetDeletionTimestamp().IsZero() &&
			secret.GetLabels()[authv1beta1.IdentityTypeLabel] == string(authv1beta1.ControlPlaneIdentityType)
}

// Reconcile keeps the RoleBinding of a tenant namespace, and removes that of a namespace that
// is no longer one.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, request.NamespacedName, namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) //nolint:wrapcheck // Reading from the cache.
	}
	current := &rbacv1.RoleBinding{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace.Name, Name: Role}, current)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading RoleBinding %s/%s: %w", namespace.Name, Role, err)
	}
	exists := err == nil
	isTenant := isTenantNamespace(namespace)
	isHeld, err := r.isHeld(ctx, namespace.Name, isTenant, current)
	if err != nil {
		return ctrl.Result{}, err
	}
	isWanted := namespace.DeletionTimestamp.IsZero() && isTenant
	switch {
	case exists && !isWanted && namespace.DeletionTimestamp.IsZero() && current.DeletionTimestamp.IsZero():
		err = r.delete(ctx, current) // The event of the deletion, or its end, enqueues the namespace.
	case exists:
		err = r.update(ctx, current, isHeld)
	case isWanted:
		err = r.create(ctx, r.forge(namespace.Name, isHeld))
	}
	return ctrl.Result{}, err
}

// isHeld reports whether the rights in a namespace are needed by what is in it: to withdraw it, or
// because its reconciler reads and writes Secrets until it is gone.
func (r *Reconciler) isHeld(ctx context.Context, namespace string, isTenant bool, current *rbacv1.RoleBinding) (bool, error) {
	lists := []client.ObjectList{&offloadingv1beta1.VirtualNodeList{}}
	if isTenant {
		lists = append(lists, &authv1beta1.IdentityList{}, &authv1beta1.TenantList{}, &authv1beta1.ResourceSliceList{})
	}
	for _, list := range lists {
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
			return false, fmt.Errorf("listing %T of namespace %q: %w", list, namespace, err)
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	secrets := &corev1.SecretList{}
	err := r.Client.List(ctx, secrets, client.InNamespace(namespace))
	if errors.Is(err, tenantsecrets.ErrNotReady) {
		return controllerutil.ContainsFinalizer(current, Finalizer), nil // The first list enqueues the namespace.
	}
	if err != nil {
		return false, fmt.Errorf("listing Secrets of namespace %q: %w", namespace, err)
	}
	return slices.ContainsFunc(secrets.Items, func(secret corev1.Secret) bool { return IsHolding(&secret, isTenant) }), nil
}

func (r *Reconciler) create(ctx context.Context, desired *rbacv1.RoleBinding) error {
	if err := r.Client.Create(ctx, desired); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating RoleBinding %s/%s: %w", desired.Namespace, desired.Name, err)
	}
	return nil
}

func (r *Reconciler) delete(ctx context.Context, current *rbacv1.RoleBinding) error {
	if err := r.Client.Delete(ctx, current); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting RoleBinding %s/%s: %w", current.Namespace, current.Name, err)
	}
	return nil
}

// update sets and removes the finalizer, and corrects the subjects. The role of a binding cannot
// be changed: the event of its deletion enqueues the namespace again.
func (r *Reconciler) update(ctx context.Context, current *rbacv1.RoleBinding, isHeld bool) error {
	desired, isAlive := r.forge(current.Namespace, isHeld), current.DeletionTimestamp.IsZero()
	updated := current.DeepCopy()
	switch {
	case current.RoleRef != desired.RoleRef:
		if controllerutil.RemoveFinalizer(updated, Finalizer) {
			break
		}
		if !isAlive {
			return nil
		}
		return r.delete(ctx, current)
	case isHeld && isAlive:
		controllerutil.AddFinalizer(updated, Finalizer)
		updated.Subjects = desired.Subjects
	case isAlive:
		controllerutil.RemoveFinalizer(updated, Finalizer)
		updated.Subjects = desired.Subjects
	case !isHeld:
		controllerutil.RemoveFinalizer(updated, Finalizer)
	}
	if equality.Semantic.DeepEqual(updated, current) {
		return nil
	}
	if err := r.Client.Patch(ctx, updated, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching RoleBinding %s/%s: %w", current.Namespace, current.Name, err)
	}
	return nil
}

func isTenantNamespace(namespace *corev1.Namespace) bool {
	return authentication.TenantNamespaceProblem(namespace, liqocorev1beta1.ClusterID(namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel])) == ""
}

func (r *Reconciler) forge(namespace string, isHeld bool) *rbacv1.RoleBinding {
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: Role, Namespace: namespace, Labels: map[string]string{
			liqocorev1beta1.ManagedByLabel: "longshore",
		}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Role},
	}
	if isHeld {
		controllerutil.AddFinalizer(binding, Finalizer)
	}
	for _, account := range r.ServiceAccounts {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name})
	}
	return binding
}
