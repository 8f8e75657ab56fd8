package replication

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// isControlPlaneKubeconfig reports whether an object has the metadata of a control-plane kubeconfig
// Secret.
func isControlPlaneKubeconfig(obj client.Object) bool {
	labels := obj.GetLabels()
	return labels[liqocorev1beta1.RemoteClusterIDLabel] != "" &&
		labels[authv1beta1.IdentityTypeLabel] == string(authv1beta1.ControlPlaneIdentityType) &&
		obj.GetAnnotations()[authv1beta1.RemoteTenantNamespaceAnnotation] != ""
}

// selectSecret returns the Secret for replication to a cluster: the oldest in a tenant namespace of
// the cluster, or nil. It is pure.
func selectSecret(candidates []corev1.Secret, tenants map[string]bool) *corev1.Secret {
	var selected *corev1.Secret
	for i := range candidates {
		candidate := &candidates[i]
		if tenants[candidate.Namespace] && (selected == nil || compareAge(candidate, selected) < 0) {
			selected = candidate
		}
	}
	return selected
}

func compareAge(a, b *corev1.Secret) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// checkSelected returns why a control-plane kubeconfig Secret is not used, or "". Two Secrets of one
// cluster would be two writers of the same remote objects.
func (r *Reconciler) checkSelected(ctx context.Context, secret *corev1.Secret) (string, error) {
	cluster := secret.Labels[liqocorev1beta1.RemoteClusterIDLabel]
	secrets, err := r.secretsOf(ctx, cluster)
	if err != nil {
		return "", err
	}
	tenants := map[string]bool{}
	for i := range secrets {
		namespace := &corev1.Namespace{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: secrets[i].Namespace}, namespace)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading namespace %q: %w", secrets[i].Namespace, err)
		}
		tenants[secrets[i].Namespace] = err == nil && liqocorev1beta1.IsTenantNamespace(namespace, liqocorev1beta1.ClusterID(cluster))
	}
	selected := selectSecret(secrets, tenants)
	switch {
	case !tenants[secret.Namespace]:
		return fmt.Sprintf("Secret %s/%s is not in the tenant namespace of cluster %s and is ignored. "+
			"Delete it, or give namespace %s the labels %s=true and %s=%s if it is the tenant namespace.",
			secret.Namespace, secret.Name, cluster, secret.Namespace,
			liqocorev1beta1.TenantNamespaceLabel, liqocorev1beta1.RemoteClusterIDLabel, cluster), nil
	case selected != nil && client.ObjectKeyFromObject(selected) != client.ObjectKeyFromObject(secret):
		return fmt.Sprintf("Secret %s/%s is older and is used for cluster %s; this one is ignored. Delete one of the two.",
			selected.Namespace, selected.Name, cluster), nil
	default:
		return "", nil
	}
}

// secretsOf lists the control-plane kubeconfig Secrets of a cluster.
func (r *Reconciler) secretsOf(ctx context.Context, cluster string) ([]corev1.Secret, error) {
	list := &corev1.SecretList{}
	if err := r.Client.List(ctx, list, client.MatchingLabels{
		liqocorev1beta1.RemoteClusterIDLabel: cluster, authv1beta1.IdentityTypeLabel: string(authv1beta1.ControlPlaneIdentityType),
	}); err != nil {
		return nil, fmt.Errorf("listing the kubeconfig Secrets of cluster %q: %w", cluster, err)
	}
	return slices.DeleteFunc(list.Items, func(secret corev1.Secret) bool { return !isControlPlaneKubeconfig(&secret) }), nil
}

// related returns requests for all Secrets of the cluster of a Secret or a tenant namespace, because
// another one may be selected.
func (r *Reconciler) related(ctx context.Context, obj client.Object) []reconcile.Request {
	cluster := obj.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel]
	if cluster == "" {
		return nil
	}
	secrets, err := r.secretsOf(ctx, cluster)
	if err != nil {
		// Listing from the cache fails only while the manager stops.
		log.FromContext(ctx).Error(err, "Failed to list Secrets")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(secrets))
	for i := range secrets {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&secrets[i])})
	}
	return requests
}
