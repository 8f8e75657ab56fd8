package resourceslice

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
// its conditions.
func wantsVirtualNode(slice *authv1beta1.ResourceSlice) bool {
	value := slice.Annotations[authv1beta1.CreateVirtualNodeAnnotation]
	return value != "" && !strings.EqualFold(value, "false") &&
		condition(slice, authv1beta1.ResourceSliceConditionTypeAuthentication) == authv1beta1.ResourceSliceConditionAccepted &&
		condition(slice, authv1beta1.ResourceSliceConditionTypeResources) == authv1beta1.ResourceSliceConditionAccepted
}

// setVirtualNode sets in a VirtualNode what follows the slice: capacity, classes, labels and
// the node selector. Everything else belongs to the administrator.
func setVirtualNode(vn *offloadingv1beta1.VirtualNode, slice *authv1beta1.ResourceSlice, provider liqocorev1beta1.ClusterID, secret string) {
	vn.Labels = merge(vn.Labels, map[string]string{
		liqocorev1beta1.RemoteClusterIDLabel: string(provider), authv1beta1.ResourceSliceNameLabel: slice.Name,
	})
	vn.Spec.ClusterID = provider
	vn.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: secret}
	before, isRecorded := recordedKeys(vn)
	var now sliceKeys
	vn.Spec.Labels, now.Labels = follow(vn.Spec.Labels, slice.Status.NodeLabels, before.Labels, isRecorded)
	vn.Spec.Labels = merge(vn.Spec.Labels, map[string]string{liqocorev1beta1.RemoteClusterIDLabel: string(provider)})
	vn.Spec.ResourceQuota.Hard = slice.Status.Resources.DeepCopy()
	vn.Spec.StorageClasses = slices.Clone(slice.Status.StorageClasses)
	vn.Spec.IngressClasses = slices.Clone(slice.Status.IngressClasses)
	vn.Spec.LoadBalancerClasses = slices.Clone(slice.Status.LoadBalancerClasses)
	if patch := vn.Spec.OffloadingPatch; patch != nil || len(slice.Status.NodeSelector) > 0 {
		if patch == nil {
			patch = &offloadingv1beta1.OffloadingPatch{}
			vn.Spec.OffloadingPatch = patch
		}
		patch.NodeSelector, now.NodeSelector = follow(patch.NodeSelector, slice.Status.NodeSelector, before.NodeSelector, isRecorded)
	}
	text, _ := json.Marshal(now) // Lists of texts.
	vn.Annotations = merge(vn.Annotations, map[string]string{sliceAnnotation: string(text)})
}

// maxProblem bounds the text of a problem, in bytes: the provider writes what is wrong.
const maxProblem = 500

// checkLabels returns what is wrong with the labels and the node selector that a provider reports.
func checkLabels(slice *authv1beta1.ResourceSlice) field.ErrorList {
	status := field.NewPath("status")
	return append(validation.ValidateLabels(slice.Status.NodeLabels, status.Child("nodeLabels")),
		validation.ValidateLabels(slice.Status.NodeSelector, status.Child("nodeSelector"))...)
}

// sliceAnnotation on a VirtualNode names what of its labels and of its node selector is of the slice. What
// the provider reports no longer is removed; what an administrator set stays.
const sliceAnnotation = "longshore.dev/from-resourceslice"

// sliceKeys is the value of sliceAnnotation.
type sliceKeys struct {
	Labels       []string `json:"labels,omitempty"`
	NodeSelector []string `json:"nodeSelector,omitempty"`
}

// recordedKeys returns what is recorded, and false on a VirtualNode of an earlier version.
func recordedKeys(vn *offloadingv1beta1.VirtualNode) (sliceKeys, bool) {
	var keys sliceKeys
	err := json.Unmarshal([]byte(vn.Annotations[sliceAnnotation]), &keys)
	return keys, err == nil
}

// follow returns entries with those that the slice reports instead of those that it reported before, and the
// keys that are of the slice. An entry of an administrator stays, also if the slice reports another one; on a
// VirtualNode without a record, all that the slice reports is of the slice.
func follow(have, reported map[string]string, before []string, isRecorded bool) (entries map[string]string, keys []string) {
	entries = maps.Clone(have)
	for _, key := range before {
		delete(entries, key)
	}
	for _, key := range slices.Sorted(maps.Keys(reported)) {
		if _, isSet := entries[key]; isSet && isRecorded {
			continue
		}
		keys = append(keys, key)
		entries = merge(entries, map[string]string{key: reported[key]})
	}
	if len(entries) == 0 {
		return nil, keys
	}
	return entries, keys
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

// usesSecret reports whether a VirtualNode has the credentials of a Secret.
func usesSecret(vns []offloadingv1beta1.VirtualNode, secret string) bool {
	return slices.ContainsFunc(vns, func(vn offloadingv1beta1.VirtualNode) bool {
		return vn.Spec.KubeconfigSecretRef != nil && vn.Spec.KubeconfigSecretRef.Name == secret
	})
}

// isOwn reports whether a slice is not the copy of another cluster's.
func isOwn(object metav1.Object) bool {
	return object.GetLabels()[liqocorev1beta1.ReplicatedLabel] != "true"
}

// isLocal reports whether a slice is this cluster's own request, not the copy of another's.
func isLocal(object metav1.Object) bool {
	labels := object.GetLabels()
	return labels[liqocorev1beta1.ReplicationLabel] == "true" && labels[liqocorev1beta1.RemoteIDLabel] != ""
}
