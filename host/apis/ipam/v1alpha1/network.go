package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
)

// Labels, values and the finalizer of Networks.
const (
	// NetworkTypeLabel is the use of a network of this cluster.
	NetworkTypeLabel = "ipam.liqo.io/network-type"
	// NetworkNotRemappedLabel is "true" if the network gets exactly its own CIDR, or none.
	NetworkNotRemappedLabel = "ipam.liqo.io/network-not-remapped"
	// NetworkSharedLabel is "true" if several Networks may have the same CIDR.
	NetworkSharedLabel = "ipam.liqo.io/network-shared"
	// NetworkFinalizer releases the CIDR.
	NetworkFinalizer = "network.ipam.liqo.io/finalizer"
	// PreinstalledAnnotation marks Networks and IPs of the installation, which have no finalizer.
	PreinstalledAnnotation = "liqo.io/preinstalled"
)

// NetworkType is the value of NetworkTypeLabel.
type NetworkType string

// The types of networks of this cluster.
const (
	PodCIDRNetwork      NetworkType = "pod-cidr"
	ServiceCIDRNetwork  NetworkType = "service-cidr"
	ExternalCIDRNetwork NetworkType = "external-cidr"
	InternalCIDRNetwork NetworkType = "internal-cidr"
	ReservedNetwork     NetworkType = "reserved"
)

// NetworkSpec is the desired state of a Network.
type NetworkSpec struct {
	// CIDR of the network, as its owner has it.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cidr is immutable"
	CIDR networkingv1beta1.CIDR `json:"cidr"`
	// PreAllocated is the number of addresses at the start of the network that are not given out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="preAllocated is immutable"
	// +optional
	// +kubebuilder:validation:Minimum=0
	PreAllocated uint32 `json:"preAllocated,omitempty"`
}

// NetworkStatus is the observed state of a Network.
type NetworkStatus struct {
	// CIDR under which this cluster knows the network.
	CIDR networkingv1beta1.CIDR `json:"cidr,omitempty"`
}

// Network is a CIDR that is in use in this cluster, and what it is remapped to.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=net
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Desired CIDR",type=string,JSONPath=`.spec.cidr`
// +kubebuilder:printcolumn:name="Remapped CIDR",type=string,JSONPath=`.status.cidr`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkSpec   `json:"spec,omitempty"`
	Status NetworkStatus `json:"status,omitempty,omitzero"`
}

// NetworkList is a list of Networks.
//
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Network `json:"items"`
}
