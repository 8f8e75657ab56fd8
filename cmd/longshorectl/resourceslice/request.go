// Package resourceslice is longshorectl create, get and delete resourceslice: what a consumer
// asks of a provider, and what it got.
package resourceslice

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

// defaultClass is the built-in class of a provider; the empty one means it, too.
const defaultClass = "default"

// Request says what the consumer asks of the provider.
type Request struct {
	// Name of the ResourceSlice, and of its virtual node.
	Name string
	// Class of the slice.
	Class string
	// Resources that are asked for; the provider grants its defaults of others.
	Resources corev1.ResourceList
	// VirtualNode asks for a virtual node.
	VirtualNode bool
}

// Object returns a new ResourceSlice for the request.
func (r Request) Object(namespace string, provider liqocorev1beta1.ClusterID) *authv1beta1.ResourceSlice {
	slice := authentication.ResourceSlice(namespace, r.Name, provider, nil, authv1beta1.ResourceSliceSpec{
		Class: authv1beta1.ResourceSliceClass(r.Class), Resources: r.Resources,
	})
	r.annotate(slice)
	return slice
}

func (r Request) annotate(slice *authv1beta1.ResourceSlice) {
	if r.VirtualNode {
		metav1.SetMetaDataAnnotation(&slice.ObjectMeta, authv1beta1.CreateVirtualNodeAnnotation, "true")
	} else {
		delete(slice.Annotations, authv1beta1.CreateVirtualNodeAnnotation)
	}
}

// change sets in a slice what the request names. The certificate request and the consumer's ID
// belong to Longshore's manager, and resources that the request does not name stay.
func (r Request) change(slice, want *authv1beta1.ResourceSlice) {
	slice.Spec.ProviderClusterID, slice.Spec.Class = want.Spec.ProviderClusterID, want.Spec.Class
	if len(r.Resources) > 0 && slice.Spec.Resources == nil {
		slice.Spec.Resources = corev1.ResourceList{}
	}
	maps.Copy(slice.Spec.Resources, r.Resources)
	r.annotate(slice)
	admin.SetLabels(slice, want)
}

// conditions are what a provider decides about a slice.
var conditions = []authv1beta1.ResourceSliceConditionType{
	authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionTypeResources,
}

// ConditionOf returns a condition of a slice, or nil.
func ConditionOf(slice *authv1beta1.ResourceSlice, kind authv1beta1.ResourceSliceConditionType) *authv1beta1.ResourceSliceCondition {
	for i := range slice.Status.Conditions {
		if slice.Status.Conditions[i].Type == kind {
			return &slice.Status.Conditions[i]
		}
	}
	return nil
}

// IsAccepted reports whether the provider accepted both the credentials and the resources of a
// slice.
func IsAccepted(slice *authv1beta1.ResourceSlice) bool {
	for _, kind := range conditions {
		if c := ConditionOf(slice, kind); c == nil || c.Status != authv1beta1.ResourceSliceConditionAccepted {
			return false
		}
	}
	return true
}

// IsCopy reports whether a slice is the copy of a consumer's request in the provider.
func IsCopy(slice client.Object) bool {
	labels := slice.GetLabels()
	return labels[liqocorev1beta1.ReplicatedLabel] == "true" && labels[liqocorev1beta1.OriginIDLabel] != ""
}
