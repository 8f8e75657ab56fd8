package resourceslice

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

// Reasons of the conditions of a ResourceSlice.
const (
	reasonAuthenticationAccepted = "ResourceSliceAuthenticationAccepted"
	reasonAuthenticationDenied   = "ResourceSliceAuthenticationDenied"
	reasonResourcesAccepted      = "ResourceSliceResourcesAccepted"
	reasonResourcesDenied        = "ResourceSliceResourcesDenied"
	reasonClassDisabled          = "DefaultResourceSliceClassDisabled"
)

// grantedMessage is the message of the condition of a slice that is decided and granted.
const grantedMessage = "The resources are granted."

// abandonedMessage follows the one of a grant while pods of the consumer's earlier slices take a part of it.
const abandonedMessage = grantedMessage + " Pods of ResourceSlices that are gone take a part of them until they have ended: " +
	"the consumer deletes these pods, or creates the ResourceSlice of that name again."

// DefaultClass is the built-in class; the empty one means it, too.
const DefaultClass = "default"

// classOf returns the class of a slice by its name, or by a hash of a name that is too long for an
// annotation: the consumer chooses it.
func classOf(slice *authv1beta1.ResourceSlice) string {
	class := cmp.Or(string(slice.Spec.Class), DefaultClass)
	if len(class) > maxClassBytes {
		return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(class)))
	}
	return class
}

// maxClassBytes bounds the name of a class that is recorded as it is.
const maxClassBytes = 253

// Offer is what this cluster grants and announces to its consumers.
type Offer struct {
	// Defaults are granted, by the default policy, of resources that a consumer does not name.
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

// DefaultResources are the reference's defaults.
func DefaultResources() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
	}
}

// decision is what the policies have decided about a slice. One of the first three fields is set.
type decision struct {
	granted corev1.ResourceList
	// denial is the message of a policy that denies the slice, failure that of one that fails.
	denial, failure string
	// hasAbandoned is set while pods of the consumer run that no slice counts.
	hasAbandoned bool
}

// asksPolicies reports whether the policies decide about a slice. Otherwise it sets the condition
// of the slice, unless the class belongs to another controller. It is pure.
func asksPolicies(slice *authv1beta1.ResourceSlice, condition authv1beta1.TenantCondition, offer *Offer, now metav1.Time) bool {
	status := &slice.Status
	switch {
	case condition == authv1beta1.TenantConditionDrained:
		deny(status, reasonResourcesDenied, "The tenant is drained.", now)
	case condition == authv1beta1.TenantConditionCordoned:
		if !hasCondition(status, authv1beta1.ResourceSliceConditionTypeResources) {
			deny(status, reasonResourcesDenied, "The tenant is cordoned: no new slices are accepted.", now)
		}
	case classOf(slice) != DefaultClass:
	case offer.ClassDisabled:
		deny(status, reasonClassDisabled, "The default class is disabled in this cluster. Ask its administrators for a class.", now)
	default:
		err := quantity.CheckList(slice.Spec.Resources)
		if err == nil {
			return true
		}
		deny(status, reasonResourcesDenied, fmt.Sprintf("The request is invalid: %s.", err), now)
	}
	return false
}

// apply sets in the status of a slice what the policies have decided. While a policy fails, an
// accepted slice keeps what it has. It is pure.
func apply(slice *authv1beta1.ResourceSlice, d *decision, offer *Offer, storage []storagev1.StorageClass, now metav1.Time) {
	status := &slice.Status
	switch {
	case d.failure != "" && isAccepted(status):
		accept(status, "The resources of an earlier decision stay granted: "+d.failure+".", now)
	case d.failure != "":
		deny(status, reasonResourcesDenied, "The request is not decided: "+d.failure+".", now)
	case d.denial != "":
		deny(status, reasonResourcesDenied, d.denial, now)
	case len(d.granted) == 0:
		deny(status, reasonResourcesDenied, "No policy of the provider grants resources.", now)
	default:
		grant(slice, d.granted, offer, storage)
		message := grantedMessage
		if d.hasAbandoned {
			message = abandonedMessage
		}
		accept(status, message, now)
	}
}

func deny(status *authv1beta1.ResourceSliceStatus, reason, message string, now metav1.Time) {
	setCondition(status, authv1beta1.ResourceSliceConditionTypeResources, authv1beta1.ResourceSliceConditionDenied, reason, message, now)
}

func accept(status *authv1beta1.ResourceSliceStatus, message string, now metav1.Time) {
	setCondition(status, authv1beta1.ResourceSliceConditionTypeResources, authv1beta1.ResourceSliceConditionAccepted, reasonResourcesAccepted, message, now)
}

// grant sets what the slice gets. A resource that is no longer granted goes (Q1).
func grant(slice *authv1beta1.ResourceSlice, granted corev1.ResourceList, offer *Offer, storage []storagev1.StorageClass) {
	// An equal list stays as it is, since quantities have several forms.
	if !quantity.Equal(slice.Status.Resources, granted) {
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

// setCondition sets a condition; its time changes with the status, the reason or the message.
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

// isAccepted reports whether resources are granted.
func isAccepted(status *authv1beta1.ResourceSliceStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool {
		return c.Type == authv1beta1.ResourceSliceConditionTypeResources && c.Status == authv1beta1.ResourceSliceConditionAccepted
	})
}
