package virtualnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
)

// ensureNode creates the Node of the VirtualNode. The virtual kubelet publishes its status but
// does not create it: RBAC cannot restrict the names of created objects, so that it could
// create any Node.
func (r *Reconciler) ensureNode(ctx context.Context, vn *offloadingv1beta1.VirtualNode) error {
	if vn.Spec.CreateNode != nil && !*vn.Spec.CreateNode {
		return nil
	}
	err := r.Client.Get(ctx, client.ObjectKey{Name: vn.Name}, &corev1.Node{})
	if apierrors.IsNotFound(err) {
		err = client.IgnoreAlreadyExists(r.Client.Create(ctx, local.InitialNode(vn), client.FieldOwner(FieldManager)))
	}
	if err != nil {
		return fmt.Errorf("ensuring Node %q: %w", vn.Name, err)
	}
	return nil
}
