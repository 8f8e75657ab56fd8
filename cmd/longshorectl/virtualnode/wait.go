// Package virtualnode is longshorectl create, get and delete virtualnode: nodes of this
// cluster that are a share of another one.
package virtualnode

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// WaitReady waits until a VirtualNode exists and its Node is ready.
func WaitReady(ctx context.Context, consumer *admin.Cluster, namespace, name string, waiting admin.Waiting) error {
	return waitReady(ctx, consumer, namespace, name, waiting, func(*offloadingv1beta1.VirtualNode) string { return "" })
}

// WaitOf waits until the VirtualNode of a slice has what the slice is granted, and its Node is ready. A
// VirtualNode that was not made of the slice, and has its name, has a capacity of its own.
func WaitOf(ctx context.Context, consumer *admin.Cluster, slice *authv1beta1.ResourceSlice, waiting admin.Waiting) error {
	return waitReady(ctx, consumer, slice.Namespace, slice.Name, waiting, func(vn *offloadingv1beta1.VirtualNode) string {
		if !admin.IsOwnedBy(vn, "ResourceSlice") {
			return ""
		}
		// The provider may change the grant in the meantime.
		current := &authv1beta1.ResourceSlice{}
		if err := consumer.Get(ctx, client.ObjectKeyFromObject(slice), current); err != nil {
			return fmt.Sprintf("its ResourceSlice to be read: %v", err)
		}
		return missingCapacity(vn, current.Status.Resources)
	})
}

func waitReady(ctx context.Context, consumer *admin.Cluster, namespace, name string, waiting admin.Waiting, missing func(*offloadingv1beta1.VirtualNode) string) error {
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	if err := consumer.Until(ctx, vn, waiting, func() string { return missing(vn) }); err != nil {
		return err
	}
	if !ptr.Deref(vn.Spec.CreateNode, true) {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return consumer.Until(ctx, node, waiting, func() string { return notReady(node) })
}

// missingCapacity returns the first resource of the capacity that the VirtualNode does not have,
// or "".
func missingCapacity(vn *offloadingv1beta1.VirtualNode, capacity corev1.ResourceList) string {
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		want, have := capacity[name], vn.Spec.ResourceQuota.Hard[name]
		if want.Cmp(have) != 0 {
			return fmt.Sprintf("its capacity to be %s %s", name, want.String())
		}
	}
	return ""
}

// notReady returns why a Node is not ready, or "".
func notReady(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return ""
			}
			return c.Reason + ": " + c.Message
		}
	}
	return "its virtual kubelet to report"
}

// WaitGone waits until a VirtualNode that is being deleted and its Node do not exist.
func WaitGone(ctx context.Context, consumer *admin.Cluster, vn *offloadingv1beta1.VirtualNode, waiting admin.Waiting) error {
	if err := consumer.UntilGone(ctx, vn, waiting); err != nil {
		return err
	}
	if !ptr.Deref(vn.Spec.CreateNode, true) {
		return nil
	}
	return consumer.UntilGone(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: vn.Name}}, waiting)
}
