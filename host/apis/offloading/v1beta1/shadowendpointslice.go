package v1beta1

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ShadowEndpointSliceGVK is the kind of a ShadowEndpointSlice, the controller of the remote
// EndpointSlice.
var ShadowEndpointSliceGVK = GroupVersion.WithKind("ShadowEndpointSlice")

// EndpointSliceTemplate is the body of a remote EndpointSlice.
type EndpointSliceTemplate struct {
	// Endpoints of the slice.
	Endpoints []discoveryv1.Endpoint `json:"endpoints,omitempty"`
	// Ports of the slice.
	Ports []discoveryv1.EndpointPort `json:"ports,omitempty"`
	// AddressType of the slice.
	// +optional
	AddressType discoveryv1.AddressType `json:"addressType,omitempty"`
}

// ShadowEndpointSliceSpec is the desired state of a ShadowEndpointSlice.
type ShadowEndpointSliceSpec struct {
	// Template of the remote EndpointSlice.
	// +optional
	Template EndpointSliceTemplate `json:"template,omitempty"`
}

// ShadowEndpointSlice requests an EndpointSlice from a provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=shes;sheps;seps,categories=liqo
type ShadowEndpointSlice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ShadowEndpointSliceSpec `json:"spec,omitempty"`
}

// ShadowEndpointSliceList is a list of ShadowEndpointSlices.
//
// +kubebuilder:object:root=true
type ShadowEndpointSliceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ShadowEndpointSlice `json:"items"`
}
