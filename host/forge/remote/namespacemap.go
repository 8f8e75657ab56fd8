package remote

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// NamespaceMap builds the NamespaceMap of a provider, which is replicated to it from the tenant
// namespace.
func NamespaceMap(id, tenantNamespace string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{
		Name: id, Namespace: tenantNamespace,
		Labels: map[string]string{
			liqocorev1beta1.RemoteClusterIDLabel: id,
			liqocorev1beta1.ReplicationLabel:     "true",
			liqocorev1beta1.RemoteIDLabel:        id,
		},
	}}
}
