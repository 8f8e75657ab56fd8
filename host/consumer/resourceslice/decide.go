package resourceslice

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// condition returns what the provider decided about one aspect of a slice, or "".
func condition(slice *authv1beta1.ResourceSlice, kind authv1beta1.ResourceSliceConditionType) authv1beta1.ResourceSliceConditionStatus {
	for _, c := range slice.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// wantsVirtualNode reports whether a slice asks for a VirtualNode and the provider granted both
// its conditions (wire P4.1, P4.2).
func wantsVirtualNode(slice *authv1beta1.ResourceSlice) bool {
	value := slice.Annotations[authv1beta1.CreateVirtualNodeAnnotation]
	return value != "" && !strings.EqualFold(value, "false") &&
		condition(slice, authv1beta1.ResourceSliceConditionTypeAuthentication) == authv1beta1.ResourceSliceConditionAccepted &&
		condition(slice, authv1beta1.ResourceSliceConditionTypeResources) == authv1beta1.ResourceSliceConditionAccepted
}

// setVirtualNode sets in a VirtualNode what follows the slice: capacity, classes, labels and
// the node selector. Everything else belongs to the administrator (wire P4.2).
func setVirtualNode(vn *offloadingv1beta1.VirtualNode, slice *authv1beta1.ResourceSlice, provider liqocorev1beta1.ClusterID, secret string) {
	vn.Labels = merge(vn.Labels, map[string]string{
		liqocorev1beta1.RemoteClusterIDLabel: string(provider), authv1beta1.ResourceSliceNameLabel: slice.Name,
	})
	vn.Spec.ClusterID = provider
	vn.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: secret}
	vn.Spec.Labels = merge(merge(vn.Spec.Labels, slice.Status.NodeLabels), map[string]string{liqocorev1beta1.RemoteClusterIDLabel: string(provider)})
	vn.Spec.ResourceQuota.Hard = slice.Status.Resources.DeepCopy()
	vn.Spec.StorageClasses = slices.Clone(slice.Status.StorageClasses)
	vn.Spec.IngressClasses = slices.Clone(slice.Status.IngressClasses)
	vn.Spec.LoadBalancerClasses = slices.Clone(slice.Status.LoadBalancerClasses)
	if len(slice.Status.NodeSelector) > 0 {
		if vn.Spec.OffloadingPatch == nil {
			vn.Spec.OffloadingPatch = &offloadingv1beta1.OffloadingPatch{}
		}
		vn.Spec.OffloadingPatch.NodeSelector = maps.Clone(slice.Status.NodeSelector)
	}
}

// merge returns the entries of both maps; those of over win.
func merge(base, over map[string]string) map[string]string {
	merged := maps.Clone(base)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, over)
	return merged
}

// isLocal reports whether a slice is this cluster's own request, not the copy of another's.
func isLocal(object metav1.Object) bool {
	labels := object.GetLabels()
	return labels[liqocorev1beta1.ReplicationLabel] == "true" && labels[liqocorev1beta1.RemoteIDLabel] != ""
}
