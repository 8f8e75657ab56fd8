package virtualnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// NamespaceProblem returns why a VirtualNode may not be in its namespace, or "". It must be
// the tenant namespace of the provider: creating a VirtualNode gives its virtual
// kubelet access to offloaded namespaces.
func NamespaceProblem(ctx context.Context, c client.Reader, vn *offloadingv1beta1.VirtualNode) (string, error) {
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: vn.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading namespace %q: %w", vn.Namespace, err)
	}
	if IsTenantNamespace(namespace, vn) {
		return "", nil
	}
	return fmt.Sprintf("namespace %q is not the tenant namespace of cluster %q (labels %s=true and %s=%s). Create the VirtualNode in the tenant namespace",
		vn.Namespace, vn.Spec.ClusterID, liqocorev1beta1.TenantNamespaceLabel, liqocorev1beta1.RemoteClusterIDLabel, vn.Spec.ClusterID), nil
}

// IsTenantNamespace reports whether a namespace is the tenant namespace of the VirtualNode's
// provider. The namespace may be nil.
func IsTenantNamespace(namespace *corev1.Namespace, vn *offloadingv1beta1.VirtualNode) bool {
	return namespace != nil && liqocorev1beta1.IsTenantNamespace(namespace, vn.Spec.ClusterID)
}
