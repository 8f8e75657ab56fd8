package resourceslice

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
)

// Reasons of the conditions of a ResourceSlice (wire P4.3).
const (
	reasonAuthenticationAccepted = "ResourceSliceAuthenticationAccepted"
	reasonAuthenticationDenied   = "ResourceSliceAuthenticationDenied"
	reasonResourcesAccepted      = "ResourceSliceResourcesAccepted"
	reasonResourcesDenied        = "ResourceSliceResourcesDenied"
	reasonClassDisabled          = "DefaultResourceSliceClassDisabled"
)

// DefaultClass is the built-in class; the empty one means it, too.
const DefaultClass = "default"

// Offer is what this cluster grants and announces to its consumers.
type Offer struct {
	// Defaults are granted of resources that a consumer does not name.
	Defaults corev1.ResourceList
	// ClassDisabled switches the built-in class off.
	ClassDisabled bool
	// StorageDisabled offers no storage class. StorageClass is the default one that is offered;
	// empty is the cluster's.
	StorageDisabled bool
	StorageClass    string
	// IngressClasses and LoadBalancerClasses that consumers may name; the default one is marked.
	IngressClasses      []authv1beta1.IngressType
	LoadBalancerClasses []authv1beta1.LoadBalancerType
	// NodeLabels describe the cluster.
	NodeLabels map[string]string
}

// DefaultResources are the reference's defaults (wire P4.3).
func DefaultResources() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
	}
}

// decideResources sets in the status of a slice what its class grants it (wire P4.3). Classes
// other than the built-in one belong to other controllers. It is pure.
func decideResources(slice *authv1beta1.ResourceSlice, condition authv1beta1.TenantCondition, offer *Offer, storage []storagev1.StorageClass, now metav1.Time) {
	status := &slice.Status
	deny := func(reason, message string) {
		setCondition(status, authv1beta1.ResourceSliceConditionTypeResources, authv1beta1.ResourceSliceConditionDenied, reason, message, now)
	}
	switch {
	case condition == authv1beta1.TenantConditionDrained:
		deny(reasonResourcesDenied, "The tenant is drained.")
	case condition == authv1beta1.TenantConditionCordoned:
		if !hasCondition(status, authv1beta1.ResourceSliceConditionTypeResources) {
			deny(reasonResourcesDenied, "The tenant is cordoned: no new slices are accepted.")
		}
	case slice.Spec.Class != "" && slice.Spec.Class != DefaultClass:
		return
	case offer.ClassDisabled:
		deny(reasonClassDisabled, "The default class is disabled in this cluster. Ask its administrators for a class.")
	default:
		grant(slice, offer, storage)
		setCondition(status, authv1beta1.ResourceSliceConditionTypeResources, authv1beta1.ResourceSliceConditionAccepted,
			reasonResourcesAccepted, "The resources are granted.", now)
	}
}

// grant sets what the slice gets: all it asks for, and the defaults for what it does not name.
// A resource that it no longer names is no longer granted (Q1).
func grant(slice *authv1beta1.ResourceSlice, offer *Offer, storage []storagev1.StorageClass) {
	granted := offer.Defaults.DeepCopy()
	if granted == nil {
		granted = corev1.ResourceList{}
	}
	maps.Copy(granted, slice.Spec.Resources)
	// An equal list stays as it is, since quantities have several forms.
	if !equality.Semantic.DeepEqual(slice.Status.Resources, granted) {
		slice.Status.Resources = granted
	}
	slice.Status.StorageClasses = storageTypes(storage, offer)
	slice.Status.IngressClasses = offer.IngressClasses
	slice.Status.LoadBalancerClasses = offer.LoadBalancerClasses
	slice.Status.NodeLabels = offer.NodeLabels
}

// storageTypes returns the StorageClasses by name; the default one is marked.
func storageTypes(classes []storagev1.StorageClass, offer *Offer) []authv1beta1.StorageType {
	if offer.StorageDisabled {
		return nil
	}
	types := make([]authv1beta1.StorageType, 0, len(classes))
	for i := range classes {
		isDefault := classes[i].Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
		if offer.StorageClass != "" {
			isDefault = classes[i].Name == offer.StorageClass
		}
		types = append(types, authv1beta1.StorageType{StorageClassName: classes[i].Name, Default: isDefault})
	}
	slices.SortFunc(types, func(a, b authv1beta1.StorageType) int { return strings.Compare(a.StorageClassName, b.StorageClassName) })
	if len(types) == 0 {
		return nil
	}
	return types
}

// setCondition sets a condition; its time changes with the status, the reason or the message
// (wire P1.1).
func setCondition(status *authv1beta1.ResourceSliceStatus, kind authv1beta1.ResourceSliceConditionType, value authv1beta1.ResourceSliceConditionStatus, reason, message string, now metav1.Time) {
	condition := authv1beta1.ResourceSliceCondition{Type: kind, Status: value, LastTransitionTime: now, Reason: reason, Message: message}
	for i := range status.Conditions {
		have := &status.Conditions[i]
		if have.Type != kind {
			continue
		}
		if have.Status != value || have.Reason != reason || have.Message != message {
			*have = condition
		}
		return
	}
	status.Conditions = append(status.Conditions, condition)
}

func hasCondition(status *authv1beta1.ResourceSliceStatus, kind authv1beta1.ResourceSliceConditionType) bool {
	return slices.ContainsFunc(status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool { return c.Type == kind })
}
