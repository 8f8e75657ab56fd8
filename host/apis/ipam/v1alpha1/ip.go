package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
)

// Labels and the finalizer of IPs.
const (
	// IPTypeLabel is the use of an address.
	IPTypeLabel = "ipam.liqo.io/ip-type"
	// IPFinalizer releases the address.
	IPFinalizer = "ip.ipam.liqo.io/finalizer"
)

// IPType is the value of IPTypeLabel.
type IPType string

// The uses of an address.
const (
	APIServerIP      IPType = "api-server"
	APIServerProxyIP IPType = "api-server-proxy"
)

// ServiceTemplate is a Service that leads to an address.
type ServiceTemplate struct {
	// Metadata of the Service.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the Service.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec corev1.ServiceSpec `json:"spec,omitempty"`
}

// IPSpec is the desired state of an IP.
type IPSpec struct {
	// IP is the address as its owner has it.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ip is immutable"
	IP networkingv1beta1.IP `json:"ip"`
	// NetworkRef refers to the Network of the remapped address, by default that of the external
	// CIDR.
	// +optional
	NetworkRef *corev1.ObjectReference `json:"networkRef,omitempty"`
	// ServiceTemplate is a Service that leads to the remapped address.
	// +optional
	ServiceTemplate *ServiceTemplate `json:"serviceTemplate,omitempty"`
	// Masquerade hides the sources of the traffic to the address.
	// +optional
	Masquerade *bool `json:"masquerade,omitempty"`
}

// IPStatus is the observed state of an IP.
type IPStatus struct {
	// IP under which other clusters reach the address.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ip is immutable"
	// +optional
	IP networkingv1beta1.IP `json:"ip,omitempty"`
	// CIDR of the remapped address.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cidr is immutable"
	// +optional
	CIDR networkingv1beta1.CIDR `json:"cidr,omitempty"`
}

// IP is an address of this cluster, and the one under which other clusters reach it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Local IP",type=string,JSONPath=`.spec.ip`
// +kubebuilder:printcolumn:name="Remapped IP",type=string,JSONPath=`.status.ip`
// +kubebuilder:printcolumn:name="Remapped IP CIDR",type=string,JSONPath=`.status.cidr`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type IP struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   IPSpec   `json:"spec,omitempty"`
	Status IPStatus `json:"status,omitempty,omitzero"`
}

// IPList is a list of IPs.
//
// +kubebuilder:object:root=true
type IPList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []IP `json:"items"`
}
