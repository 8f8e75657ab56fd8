package virtualnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// readOnly lists VirtualNodes as they are in the cache, to look something up: each has a pod template.
const readOnly = client.UnsafeDisableDeepCopy

// namespaceMaps returns the NamespaceMaps of the provider.
func namespaceMaps(ctx context.Context, cached client.Reader, vn *offloadingv1beta1.VirtualNode) ([]offloadingv1beta1.NamespaceMap, error) {
	list := &offloadingv1beta1.NamespaceMapList{}
	err := cached.List(ctx, list, client.InNamespace(vn.Namespace), client.MatchingLabels{
		liqocorev1beta1.RemoteIDLabel: string(vn.Spec.ClusterID), liqocorev1beta1.ReplicationLabel: "true",
	})
	if err != nil {
		return nil, fmt.Errorf("listing NamespaceMaps of %q: %w", vn.Spec.ClusterID, err)
	}
	return list.Items, nil
}

func patchNamespaceMap(ctx context.Context, c client.Client, nm, before *offloadingv1beta1.NamespaceMap) error {
	err := c.Patch(ctx, nm, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("recording the VirtualNodes of NamespaceMap %s/%s: %w", nm.Namespace, nm.Name, err)
	}
	return nil
}

// deleteNode deletes a Node; nil is none.
func deleteNode(ctx context.Context, c client.Client, node *corev1.Node) error {
	if node == nil {
		return nil
	}
	if err := client.IgnoreNotFound(c.Delete(ctx, node, uidPrecondition(node))); err != nil {
		return fmt.Errorf("deleting Node %q: %w", node.Name, err)
	}
	return nil
}

// uidPrecondition prevents the deletion of a new object with the same name.
func uidPrecondition(obj metav1.Object) client.Preconditions {
	uid := obj.GetUID()
	return client.Preconditions{UID: &uid}
}
