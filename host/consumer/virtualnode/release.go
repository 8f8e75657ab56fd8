package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/election"
)

// release gives back what a deleted VirtualNode has in both clusters, after its virtual kubelet has ended.
type release struct {
	Client    client.Client
	APIReader client.Reader
	// Connect opens a client to a provider.
	Connect func(*rest.Config) (client.Client, error)
	reporter

	// node may be nil. It was read before the rights, which decide about its owner, were deleted.
	node *corev1.Node
}

// Reconcile deletes the Node, the remaining ShadowPods, the NamespaceMap unless another VirtualNode uses it, and
// the leases.
func (r *release) Reconcile(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (ctrl.Result, error) {
	if r.node != nil {
		r.setCondition(vn, offloadingv1beta1.NodeConditionType, offloadingv1beta1.DeletingConditionStatusType, "")
		if err := deleteNode(ctx, r.Client, r.node); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.withdrawShadowPods(ctx, vn); err != nil {
		return ctrl.Result{}, err
	}
	siblings, err := r.siblings(ctx, vn)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.releaseNamespaceMaps(ctx, vn, len(siblings) > 0); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.deleteLeases(ctx, vn, len(siblings) > 0)
}

// releaseNamespaceMaps deletes the provider's NamespaceMap with its last VirtualNode. A
// VirtualNode that is still draining counts: without the NamespaceMap the provider deletes the
// namespaces of its pods. A VirtualNode that was deleted without its finalizer counts until it
// is created again and withdrawn. VirtualNodes are read from the API server, because with a
// stale one the NamespaceMap would be kept forever. shared means that the provider has other ones.
func (r *release) releaseNamespaceMaps(ctx context.Context, vn *offloadingv1beta1.VirtualNode, shared bool) error {
	list, err := namespaceMaps(ctx, r.Client, vn)
	if err != nil {
		return err
	}
	var errs []error
	for i := range list {
		nm := &list[i]
		before := nm.DeepCopy()
		changed := nm.RemoveVirtualNode(client.ObjectKeyFromObject(vn).String())
		users := nm.VirtualNodes()
		switch {
		case !shared && len(users) == 0:
			if err := client.IgnoreNotFound(r.Client.Delete(ctx, nm, uidPrecondition(nm))); err != nil {
				errs = append(errs, fmt.Errorf("deleting NamespaceMap %s/%s: %w", nm.Namespace, nm.Name, err))
			}
			continue
		case !shared:
			r.Events.Eventf(vn, nm, corev1.EventTypeWarning, reasonMapKept, actionStop,
				"NamespaceMap %s/%s and the remote namespaces are kept: VirtualNode %s was deleted without its finalizer. Create it again and delete it, or delete the NamespaceMap.",
				nm.Namespace, nm.Name, strings.Join(users, ", "))
		}
		if changed {
			errs = append(errs, patchNamespaceMap(ctx, r.Client, nm, before))
		}
	}
	return errors.Join(errs...)
}

// siblings returns the other VirtualNodes of the provider that exist.
func (r *release) siblings(ctx context.Context, vn *offloadingv1beta1.VirtualNode) ([]offloadingv1beta1.VirtualNode, error) {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.APIReader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(other offloadingv1beta1.VirtualNode) bool {
		leaving := !other.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(&other, offloadingv1beta1.VirtualNodeFinalizer)
		return other.UID == vn.UID || other.Spec.ClusterID != vn.Spec.ClusterID || leaving
	}), nil
}

// deleteLeases deletes the lease of the virtual kubelet, which has ended, and with the last VirtualNode of
// the provider (shared is false) the one for which its virtual kubelets compete: client-go makes leases
// without an owner. A lease that may not be deleted, outside of a tenant namespace, holds no VirtualNode.
func (r *release) deleteLeases(ctx context.Context, vn *offloadingv1beta1.VirtualNode, shared bool) error {
	namespace := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: vn.Namespace}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading namespace %q: %w", vn.Namespace, err)
	}
	if err != nil || !namespace.DeletionTimestamp.IsZero() {
		return nil // They go with it, and the right to delete them may have.
	}
	names := []string{vn.Name}
	if !shared {
		names = append(names, election.LeaseName)
	}
	for _, name := range names {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: name}}
		if err := r.Client.Delete(ctx, lease); client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("deleting Lease %s/%s: %w", vn.Namespace, name, err)
		}
	}
	return nil
}
