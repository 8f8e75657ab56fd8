package tenant

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// Roles of consumers (wire P2.6).
const (
	// ControlPlaneRole is bound in the tenant namespace.
	ControlPlaneRole = "liqo-remote-controlplane"
	// ClusterwideRole is bound in the cluster.
	ClusterwideRole = "liqo-virtual-kubelet-remote-clusterwide"

	bindingPrefix = "liqo-binding-"
)

// RoleBinding returns the binding of a consumer's control plane in its tenant namespace
// (wire P2.6).
func RoleBinding(namespace string, consumer liqocorev1beta1.ClusterID) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: bindingPrefix + ControlPlaneRole, Namespace: namespace, Labels: bindingLabels(consumer)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ControlPlaneRole},
		Subjects: []rbacv1.Subject{{
			APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: authentication.ControlPlaneSubject(consumer).User,
		}},
	}
}

// ClusterRoleBinding returns the binding of a consumer's virtual kubelets in the cluster
// (wire P2.6).
func ClusterRoleBinding(consumer liqocorev1beta1.ClusterID) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: bindingPrefix + ClusterwideRole + "-" + string(consumer), Labels: bindingLabels(consumer)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ClusterwideRole},
		Subjects: []rbacv1.Subject{{
			APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: authentication.SliceSubject(consumer, "").Group,
		}},
	}
}

func bindingLabels(consumer liqocorev1beta1.ClusterID) map[string]string {
	return map[string]string{
		liqocorev1beta1.ManagedByLabel: liqocorev1beta1.ManagedByValue, liqocorev1beta1.RemoteClusterIDLabel: string(consumer),
	}
}

// bindControlPlane binds the role in the tenant namespace. A binding that exists with other
// subjects or another role gives a wrong party rights, so it is replaced (S6).
func (r *Reconciler) bindControlPlane(ctx context.Context, tenant *authv1beta1.Tenant) error {
	want := RoleBinding(tenant.Namespace, tenant.Spec.ClusterID)
	if err := controllerutil.SetControllerReference(tenant, want, r.Client.Scheme()); err != nil {
		return fmt.Errorf("setting the owner of RoleBinding %q: %w", want.Name, err)
	}
	have := &rbacv1.RoleBinding{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	return r.bind(ctx, want, have, err, have.RoleRef == want.RoleRef && equality.Semantic.DeepEqual(have.Subjects, want.Subjects))
}

// bindVirtualKubelets binds the role in the cluster.
func (r *Reconciler) bindVirtualKubelets(ctx context.Context, tenant *authv1beta1.Tenant) error {
	want := ClusterRoleBinding(tenant.Spec.ClusterID)
	have := &rbacv1.ClusterRoleBinding{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	return r.bind(ctx, want, have, err, have.RoleRef == want.RoleRef && equality.Semantic.DeepEqual(have.Subjects, want.Subjects))
}

// bind creates a binding, or replaces one that differs; err is that of reading it.
func (r *Reconciler) bind(ctx context.Context, want, have client.Object, err error, equal bool) error {
	kind := want.GetObjectKind().GroupVersionKind().Kind
	switch {
	case err == nil && equal:
		return nil
	case err == nil:
		if err := r.Client.Delete(ctx, have); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %q, which binds something else: %w", kind, have.GetName(), err)
		}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading %s %q: %w", kind, want.GetName(), err)
	}
	if err := r.Client.Create(ctx, want); err != nil {
		return fmt.Errorf("creating %s %q: %w", kind, want.GetName(), err)
	}
	return nil
}

// unbindVirtualKubelets removes the binding in the cluster, which no garbage collector removes
// with the Tenant.
func (r *Reconciler) unbindVirtualKubelets(ctx context.Context, tenant *authv1beta1.Tenant) error {
	binding := ClusterRoleBinding(tenant.Spec.ClusterID)
	if err := r.Client.Delete(ctx, binding); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting ClusterRoleBinding %q: %w", binding.Name, err)
	}
	return nil
}

func (r *Reconciler) unbindControlPlane(ctx context.Context, tenant *authv1beta1.Tenant) error {
	binding := RoleBinding(tenant.Namespace, tenant.Spec.ClusterID)
	if err := r.Client.Delete(ctx, binding); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting RoleBinding %q: %w", binding.Name, err)
	}
	return nil
}
