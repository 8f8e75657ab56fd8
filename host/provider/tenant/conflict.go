package tenant

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// checkID returns why a cluster ID that a consumer chose may not become a user and a group of
// this cluster, or nil: certificates with the name of an existing user or group would have its
// rights (S5). It is decided before the first certificate is issued; later bindings are the
// administrator's decision.
func (r *Reconciler) checkID(ctx context.Context, tenant *authv1beta1.Tenant) (*refusal, error) {
	if meta.IsStatusConditionTrue(tenant.Status.Conditions, authv1beta1.TenantReady) || tenant.Status.AuthParams != nil {
		return nil, nil
	}
	cluster, namespaced := &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}
	if err := r.Client.List(ctx, cluster); err != nil {
		return nil, fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	if err := r.Client.List(ctx, namespaced); err != nil {
		return nil, fmt.Errorf("listing RoleBindings: %w", err)
	}
	for i := range cluster.Items {
		if b := &cluster.Items[i]; bindsAnother(b, b.RoleRef, b.Subjects, tenant.Spec.ClusterID) {
			return conflict("ClusterRoleBinding "+b.Name, tenant.Spec.ClusterID), nil
		}
	}
	for i := range namespaced.Items {
		if b := &namespaced.Items[i]; bindsAnother(b, b.RoleRef, b.Subjects, tenant.Spec.ClusterID) {
			return conflict("RoleBinding "+b.Namespace+"/"+b.Name, tenant.Spec.ClusterID), nil
		}
	}
	return nil, nil
}

// bindsAnother reports whether a binding gives rights to a user or group with the name of a
// cluster, and is not one of its peering. It is pure.
func bindsAnother(binding client.Object, role rbacv1.RoleRef, subjects []rbacv1.Subject, id liqocorev1beta1.ClusterID) bool {
	if binding.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel] == string(id) || slices.Contains(authentication.PeerRoles(), role.Name) {
		return false
	}
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		return (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) && s.Name == string(id)
	})
}

func conflict(binding string, id liqocorev1beta1.ClusterID) *refusal {
	return &refusal{reasonIDInUse, fmt.Sprintf("%s gives rights to a user or group %q, which the consumer would have: its cluster ID is the name in its certificates. "+
		"Give the consumer another cluster ID, or label the binding with %s=%s if it is for this consumer.", binding, id, liqocorev1beta1.RemoteClusterIDLabel, id)}
}
