// Package tenantnamespace gives the manager its rights in tenant namespaces (wire P2.2). The
// manager writes Secrets there, nonces and kubeconfigs, and in no other namespace of users.
package tenantnamespace

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/retry"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// Role is the ClusterRole that the manager gets in tenant namespaces; RoleBindings have its
// name.
const Role = "longshore-manager-tenant-namespace"

// Reconciler binds Role to the manager in each tenant namespace. Its keys are names of
// namespaces.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=longshore-manager-tenant-namespace,verbs=bind
type Reconciler struct {
	Client client.Client
	// ServiceAccount is the manager's.
	ServiceAccount client.ObjectKey
}

// SetupWithManager registers watches on namespaces and on the RoleBindings in them.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	ofNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: object.GetNamespace()}}}
	})
	isRole := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == Role })
	return ctrl.NewControllerManagedBy(mgr).Named("tenantnamespace").
		For(&corev1.Namespace{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&rbacv1.RoleBinding{}, ofNamespace, builder.WithPredicates(isRole)).
		WithOptions(controller.Options{RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

// Reconcile keeps the RoleBinding of a tenant namespace, and removes that of a namespace that
// is no longer one.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, request.NamespacedName, namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) //nolint:wrapcheck // Reading from the cache.
	}
	want, have := r.forge(namespace.Name), &rbacv1.RoleBinding{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading RoleBinding %s/%s: %w", want.Namespace, want.Name, err)
	}
	exists := err == nil
	wanted := namespace.DeletionTimestamp.IsZero() && isTenantNamespace(namespace)
	if exists && (!wanted || have.RoleRef != want.RoleRef || !equality.Semantic.DeepEqual(have.Subjects, want.Subjects)) && namespace.DeletionTimestamp.IsZero() {
		if err := r.Client.Delete(ctx, have); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("deleting RoleBinding %s/%s: %w", have.Namespace, have.Name, err)
		}
		exists = false
	}
	if wanted && !exists {
		if err := r.Client.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, fmt.Errorf("creating RoleBinding %s/%s: %w", want.Namespace, want.Name, err)
		}
	}
	return ctrl.Result{}, nil
}

func isTenantNamespace(namespace *corev1.Namespace) bool {
	return authentication.TenantNamespaceProblem(namespace, liqocorev1beta1.ClusterID(namespace.Labels[liqocorev1beta1.RemoteClusterIDLabel])) == ""
}

func (r *Reconciler) forge(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: Role, Namespace: namespace, Labels: map[string]string{
			liqocorev1beta1.ManagedByLabel: "longshore",
		}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.ServiceAccount.Namespace, Name: r.ServiceAccount.Name}},
	}
}
