package provider

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// NamespaceRole is the ClusterRole of a consumer's group in its remote namespaces.
	NamespaceRole = "liqo-virtual-kubelet-remote"
	// QuotaName is the name of the ResourceQuota in each namespace of a consumer.
	QuotaName = "longshore-consumer"
)

// Owner returns the value of the annotation with the NamespaceMap of an object.
func Owner(nm *offloadingv1beta1.NamespaceMap) string { return nm.Namespace + "/" + nm.Name }

// Namespace builds the remote namespace of a local namespace.
func Namespace(nm *offloadingv1beta1.NamespaceMap, origin, local, remote string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   remote,
		Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: origin},
		Annotations: map[string]string{
			offloadingv1beta1.ManagedByNamespaceMapAnnotation: Owner(nm),
			offloadingv1beta1.OriginalNameAnnotation:          local,
		},
	}}
}

// RoleBinding builds the RoleBinding of the consumer's group, which has the name of its cluster
// ID.
func RoleBinding(nm *offloadingv1beta1.NamespaceMap, origin, remote string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name:      nm.Namespace,
			Namespace: remote,
			Labels: map[string]string{
				liqocorev1beta1.ManagedByLabel:       liqocorev1beta1.ManagedByValue,
				liqocorev1beta1.RemoteClusterIDLabel: origin,
			},
			Annotations: map[string]string{offloadingv1beta1.ManagedByNamespaceMapAnnotation: Owner(nm)},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: NamespaceRole},
		Subjects: []rbacv1.Subject{ConsumerGroup(origin)},
	}
}

// ConsumerGroup returns the group of a consumer as the subject of a binding.
func ConsumerGroup(origin string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: origin}
}

// ResourceQuota builds the ResourceQuota of a remote namespace.
func ResourceQuota(nm *offloadingv1beta1.NamespaceMap, origin, remote string, hard corev1.ResourceList) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{
			Name: QuotaName, Namespace: remote,
			Labels: map[string]string{
				liqocorev1beta1.ManagedByLabel:       liqocorev1beta1.ManagedByValue,
				liqocorev1beta1.RemoteClusterIDLabel: origin,
			},
			Annotations: map[string]string{offloadingv1beta1.ManagedByNamespaceMapAnnotation: Owner(nm)},
		},
		Spec: corev1.ResourceQuotaSpec{Hard: hard},
	}
}
