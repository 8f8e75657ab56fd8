package authentication

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
)

// Roles of consumers.
const (
	// ControlPlaneRole is bound in the tenant namespace.
	ControlPlaneRole = "liqo-remote-controlplane"
	// ClusterwideRole is bound in the cluster.
	ClusterwideRole = "liqo-virtual-kubelet-remote-clusterwide"

	bindingPrefix = "liqo-binding-"
)

// PeerRoles returns the names of the ClusterRoles of consumers.
func PeerRoles() []string { return []string{ControlPlaneRole, ClusterwideRole, provider.NamespaceRole} }

// RoleBinding returns the binding of a consumer's control plane in its tenant namespace.
func RoleBinding(namespace string, consumer liqocorev1beta1.ClusterID) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: bindingPrefix + ControlPlaneRole, Namespace: namespace, Labels: bindingLabels(consumer)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ControlPlaneRole},
		Subjects: []rbacv1.Subject{{
			APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: ControlPlaneSubject(consumer).User,
		}},
	}
}

// ClusterRoleBinding returns the binding of a consumer's virtual kubelets in the cluster.
func ClusterRoleBinding(consumer liqocorev1beta1.ClusterID) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: bindingPrefix + ClusterwideRole + "-" + string(consumer), Labels: bindingLabels(consumer)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ClusterwideRole},
		Subjects: []rbacv1.Subject{{
			APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: SliceSubject(consumer, "").Group,
		}},
	}
}

func bindingLabels(consumer liqocorev1beta1.ClusterID) map[string]string {
	return map[string]string{
		liqocorev1beta1.ManagedByLabel: liqocorev1beta1.ManagedByValue, liqocorev1beta1.RemoteClusterIDLabel: string(consumer),
	}
}

// EndAccess takes the rights that a RoleBinding of a consumer gives. The RoleBinding stays, without
// subjects: it records that something in its namespace is still to be withdrawn. It is deleted if it binds
// another role, which its writer may not be able to bind.
func EndAccess(ctx context.Context, c client.Client, binding *rbacv1.RoleBinding) error {
	var err error
	switch {
	case binding.RoleRef.Name != provider.NamespaceRole:
		err = c.Delete(ctx, binding)
	case len(binding.Subjects) > 0:
		err = c.Patch(ctx, binding.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"subjects":null}`)))
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("taking the rights of RoleBinding %s/%s: %w", binding.Namespace, binding.Name, err)
	}
	return nil
}
