package virtualnode

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// followImage sets the image of the VkOptionsTemplate in a VirtualNode that has its image from there, so that an
// upgrade of Longshore replaces the virtual kubelets. It returns what the VirtualNode gets, for its event, or "".
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=vkoptionstemplates,verbs=get;list;watch
func (r *Reconciler) followImage(ctx context.Context, vn *offloadingv1beta1.VirtualNode) (string, error) {
	key := r.optionsKey(vn)
	if vn.Annotations[offloadingv1beta1.ImageAnnotation] == "" || key.Name == "" {
		return "", nil
	}
	options := &offloadingv1beta1.VkOptionsTemplate{}
	if err := r.Client.Get(ctx, key, options); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil // The virtual kubelet runs without it.
		}
		return "", fmt.Errorf("reading VkOptionsTemplate %s: %w", key, err)
	}
	if !virtualkubelet.FollowImage(vn, options) {
		return "", nil
	}
	return fmt.Sprintf("image %s of VkOptionsTemplate %s", options.Spec.ContainerImage, key), nil
}
