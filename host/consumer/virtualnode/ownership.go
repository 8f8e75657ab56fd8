package virtualnode

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// The name of a VirtualNode is unique in its namespace, but its Node and its bindings are
// cluster-scoped. Admission denies a second VirtualNode with the same name, but two that are
// created concurrently both pass. Therefore ownership is checked before an object with the name
// is used or deleted: that of a Node by its provider, that of a binding by its subjects. Between
// two VirtualNodes with the same name and provider the ClusterRoleBinding decides, which only
// one of them can have created.

// findNode returns the VirtualNode's Node, or nil. A Node of that name may be unmanaged, or belong
// to another VirtualNode.
func findNode(ctx context.Context, cached, live client.Reader, vn *offloadingv1beta1.VirtualNode) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := cached.Get(ctx, client.ObjectKey{Name: vn.Name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Node %q: %w", vn.Name, err)
	}
	if !IsNodeOf(node, vn) {
		return nil, nil
	}
	if own, err := ownsNode(ctx, cached, live, vn); err != nil || !own {
		return nil, err
	}
	return node, nil
}

// ownsNode reports whether a Node with the VirtualNode's name and provider belongs to it, and not
// to another VirtualNode with the same name and provider.
func ownsNode(ctx context.Context, cached, live client.Reader, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	// A VirtualNode that is not in the cache yet has not been reconciled and owns nothing.
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := cached.List(ctx, list, readOnly); err != nil {
		return false, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	hasSameName := func(other offloadingv1beta1.VirtualNode) bool {
		return other.Name == vn.Name && other.Namespace != vn.Namespace && other.Spec.ClusterID == vn.Spec.ClusterID
	}
	if !slices.ContainsFunc(list.Items, hasSameName) {
		return true, nil
	}
	return isBound(ctx, live, vn)
}

// isBound reports whether the ClusterRoleBinding with the VirtualNode's name is for its virtual
// kubelet.
func isBound(ctx context.Context, live client.Reader, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	desired, current := virtualkubelet.ClusterRoleBinding(vn), &rbacv1.ClusterRoleBinding{}
	err := live.Get(ctx, client.ObjectKeyFromObject(desired), current)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading %s: %w", title(desired), err)
	}
	return err == nil && isSameBinding(current, desired), nil
}
