package virtualnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
)

// optionsKey returns the key of a VirtualNode's VkOptionsTemplate.
func (r *Reconciler) optionsKey(vn *offloadingv1beta1.VirtualNode) client.ObjectKey {
	if ref := vn.Spec.VkOptionsTemplateRef; ref != nil {
		return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	}
	return r.DefaultOptions
}

// followImage writes the image of the VkOptionsTemplate to a VirtualNode that has its image from
// there, so that an upgrade of Longshore replaces the virtual kubelets. It reports whether the
// VirtualNode has changed.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=vkoptionstemplates,verbs=get;list;watch
func (r *Reconciler) followImage(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (bool, error) {
	key := r.optionsKey(vn)
	if !vn.DeletionTimestamp.IsZero() || vn.Annotations[offloadingv1beta1.ImageAnnotation] == "" || key.Name == "" {
		return false, nil
	}
	options := &offloadingv1beta1.VkOptionsTemplate{}
	if err := r.Client.Get(ctx, key, options); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil // The virtual kubelet runs without it.
		}
		return false, fmt.Errorf("reading VkOptionsTemplate %s: %w", key, err)
	}
	before := vn.DeepCopy()
	after := vn.DeepCopy()
	if !virtualkubelet.FollowImage(after, options) {
		return false, nil
	}
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("changing the image of VirtualNode %s/%s: %w", vn.Namespace, vn.Name, err)
	}
	r.Events.Eventf(vn, nil, corev1.EventTypeNormal, reasonImageChanged, actionRun, "The virtual kubelet gets image %s of VkOptionsTemplate %s",
		options.Spec.ContainerImage, key)
	return true, nil
}

// requestsForOptions returns requests for the VirtualNodes of a VkOptionsTemplate.
func (r *Reconciler) requestsForOptions(ctx context.Context, options client.Object) []reconcile.Request {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := r.Client.List(ctx, list, readOnly); err != nil {
		// Listing from the cache fails only while the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Listing VirtualNodes failed")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if r.optionsKey(&list.Items[i]) == client.ObjectKeyFromObject(options) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
