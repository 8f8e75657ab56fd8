package virtualnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/kit/remotecluster"
)

// prerequisites are what a virtual kubelet needs that others provide: the peering, its kubeconfig Secret, and a
// valid VirtualNode.
type prerequisites struct {
	Client    client.Reader
	APIReader client.Reader
	reporter
}

// Reconcile reports what is missing.
//
// +kubebuilder:rbac:groups=core.liqo.io,resources=foreignclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
func (q *prerequisites) Reconcile(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	problem, err := q.check(ctx, vn)
	if err != nil || problem == "" {
		return ctrl.Result{}, err
	}
	return q.reportProblem(vn, problem), nil
}

// check returns why the virtual kubelet cannot run yet as a message for the author
// of the VirtualNode, or "".
func (q *prerequisites) check(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (string, error) {
	if problem, err := NamespaceProblem(ctx, q.Client, vn); problem != "" || err != nil {
		return problem, err
	}
	if fc, err := foreignCluster(ctx, q.Client, vn); err != nil {
		return "", err
	} else if fc == nil {
		return fmt.Sprintf("cluster %q has no ForeignCluster: peer with the cluster first", vn.Spec.ClusterID), nil
	}
	if vn.Spec.KubeconfigSecretRef == nil || vn.Spec.KubeconfigSecretRef.Name == "" {
		return "spec.kubeconfigSecretRef is not set: name the Secret with the provider's kubeconfig", nil
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: vn.Namespace, Name: vn.Spec.KubeconfigSecretRef.Name}
	err := q.APIReader.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("kubeconfig Secret %s does not exist", key), nil
	}
	if err != nil {
		return "", fmt.Errorf("reading kubeconfig Secret %s: %w", key, err)
	}
	if _, err := remotecluster.Config(secret, remotecluster.Limits{}); err != nil {
		return err.Error(), nil // The author of the VirtualNode must correct it.
	}
	if _, err := virtualkubelet.Deployment(vn); err != nil {
		return err.Error(), nil // The author of the VirtualNode must correct it.
	}
	return "", nil
}

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

// foreignCluster returns the ForeignCluster of the provider, or nil.
func foreignCluster(ctx context.Context, cached client.Reader, vn *offloadingv1beta1.VirtualNode) (*liqocorev1beta1.ForeignCluster, error) {
	list := &liqocorev1beta1.ForeignClusterList{}
	if err := cached.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ForeignClusters: %w", err)
	}
	for i := range list.Items {
		if clusterOf(&list.Items[i]) == string(vn.Spec.ClusterID) {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// clusterOf returns the cluster ID of an object: of a ForeignCluster from the spec, because it
// may have no label, otherwise from the label.
func clusterOf(obj client.Object) string {
	if fc, ok := obj.(*liqocorev1beta1.ForeignCluster); ok && fc.Spec.ClusterID != "" {
		return string(fc.Spec.ClusterID)
	}
	return obj.GetLabels()[liqocorev1beta1.RemoteClusterIDLabel]
}
