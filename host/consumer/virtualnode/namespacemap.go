package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// recordNamespaceMapUser records on the provider's NamespaceMaps that the VirtualNode uses them:
// its namespaces stay mapped until the VirtualNode is withdrawn.
func (r *Reconciler) recordNamespaceMapUser(ctx context.Context, vn *offloadingv1beta1.VirtualNode, maps []offloadingv1beta1.NamespaceMap) error {
	var errs []error
	for i := range maps {
		before := maps[i].DeepCopy()
		if maps[i].AddVirtualNode(client.ObjectKeyFromObject(vn).String()) {
			errs = append(errs, r.patchNamespaceMap(ctx, &maps[i], before))
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) patchNamespaceMap(ctx context.Context, nm, before *offloadingv1beta1.NamespaceMap) error {
	err := r.Client.Patch(ctx, nm, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("recording the VirtualNodes of NamespaceMap %s/%s: %w", nm.Namespace, nm.Name, err)
	}
	return nil
}

// releaseNamespaceMaps deletes the provider's NamespaceMap with its last VirtualNode. A
// VirtualNode that is still draining counts: without the NamespaceMap the provider deletes the
// namespaces of its pods. A VirtualNode that was deleted without its finalizer counts until it
// is created again and withdrawn. VirtualNodes are read from the API server, because with a
// stale one the NamespaceMap would be kept forever. shared means that the provider has other ones.
func (r *Reconciler) releaseNamespaceMaps(ctx context.Context, vn *offloadingv1beta1.VirtualNode, shared bool) error {
	list, err := r.namespaceMaps(ctx, vn)
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
			errs = append(errs, r.patchNamespaceMap(ctx, nm, before))
		}
	}
	return errors.Join(errs...)
}

// siblings returns the other VirtualNodes of the provider that exist.
func (r *Reconciler) siblings(ctx context.Context, vn *offloadingv1beta1.VirtualNode) ([]offloadingv1beta1.VirtualNode, error) {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.APIReader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(other offloadingv1beta1.VirtualNode) bool {
		leaving := !other.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(&other, offloadingv1beta1.VirtualNodeFinalizer)
		return other.UID == vn.UID || other.Spec.ClusterID != vn.Spec.ClusterID || leaving
	}), nil
}
