package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CIDR is an IPv4 network.
//
// +kubebuilder:validation:Format=cidr
type CIDR string

// IP is an IPv4 address.
//
// +kubebuilder:validation:Format=ipv4
type IP string

// The condition of a Configuration and its reasons.
const (
	// NetworkCIDRsConfigured is true when all CIDRs of the peer have a value in the status.
	// Readers trust it only with the generation of the object.
	NetworkCIDRsConfigured = "NetworkCIDRsConfigured"
	// ReasonWaitingForNetworks is its reason before.
	ReasonWaitingForNetworks = "WaitingForNetworks"
)

// ClusterCIDRs are the networks of a cluster.
type ClusterCIDRs struct {
	// Pod are the networks of pods.
	// +optional
	Pod []CIDR `json:"pod,omitempty"`
	// External are the networks from which a cluster gives addresses to what is outside its pods.
	// +optional
	External []CIDR `json:"external,omitempty"`
}

// ClusterNetwork is the network of a cluster.
type ClusterNetwork struct {
	// CIDR are its networks.
	CIDR ClusterCIDRs `json:"cidr,omitempty"`
}

// ConfigurationSpec is the desired state of a Configuration.
type ConfigurationSpec struct {
	// Local is the network of this cluster. The controller sets it.
	// +optional
	Local *ClusterNetwork `json:"local,omitempty"`
	// Remote is the network of the peer, as the peer has it.
	Remote ClusterNetwork `json:"remote,omitempty"`
}

// ConfigurationStatus is the observed state of a Configuration.
type ConfigurationStatus struct {
	// Remote is the network of the peer as this cluster knows it: an entry for each one of
	// spec.remote, in that order.
	// +optional
	Remote *ClusterNetwork `json:"remote,omitempty"`
	// Conditions of the Configuration.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Configuration is the network of a peer, and what it is remapped to in this cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=conf
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Desired Pod CIDR ",type=string,JSONPath=`.spec.remote.cidr.pod`
// +kubebuilder:printcolumn:name="Remapped Pod CIDR",type=string,JSONPath=`.status.remote.cidr.pod`
// +kubebuilder:printcolumn:name="Desired External CIDR",type=string,priority=1,JSONPath=`.spec.remote.cidr.external`
// +kubebuilder:printcolumn:name="Remapped External CIDR",type=string,priority=1,JSONPath=`.status.remote.cidr.external`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="ClusterID",type=string,priority=1,JSONPath=`.metadata.labels.liqo\.io/remote-cluster-id`
type Configuration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ConfigurationSpec   `json:"spec,omitempty"`
	Status ConfigurationStatus `json:"status,omitempty,omitzero"`
}

// ConfigurationList is a list of Configurations.
//
// +kubebuilder:object:root=true
type ConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Configuration `json:"items"`
}
