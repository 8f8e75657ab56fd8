package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConnectionType is the end of a tunnel at which a Connection is.
//
// +kubebuilder:validation:Enum=Server;Client
type ConnectionType string

// The ends of a tunnel.
const (
	ServerConnection ConnectionType = "Server"
	ClientConnection ConnectionType = "Client"
)

// ConnectionStatusType is the state of a tunnel.
type ConnectionStatusType string

// The states of a tunnel.
const (
	Connected       ConnectionStatusType = "Connected"
	Connecting      ConnectionStatusType = "Connecting"
	ConnectionError ConnectionStatusType = "Error"
)

// ConnectionSpec is the desired state of a Connection.
type ConnectionSpec struct {
	// Type is the end of the tunnel.
	Type ConnectionType `json:"type"`
	// GatewayRef refers to the gateway.
	GatewayRef corev1.ObjectReference `json:"gatewayRef"`
}

// ConnectionLatency is the time that a packet takes to the peer and back.
type ConnectionLatency struct {
	// Value is a duration.
	Value string `json:"value,omitempty"`
	// Timestamp of the measurement.
	Timestamp metav1.Time `json:"timestamp,omitempty,omitzero"`
}

// ConnectionStatus is the observed state of a Connection.
type ConnectionStatus struct {
	// Value is the state of the tunnel.
	Value ConnectionStatusType `json:"value,omitempty"`
	// Latency of the tunnel.
	// +optional
	Latency *ConnectionLatency `json:"latency,omitempty"`
}

// Connection is the state of the tunnel to a peer.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=conn
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.value`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Latency",type=string,priority=1,JSONPath=`.status.latency.value`
type Connection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ConnectionSpec   `json:"spec,omitempty"`
	Status ConnectionStatus `json:"status,omitempty,omitzero"`
}

// ConnectionList is a list of Connections.
//
// +kubebuilder:object:root=true
type ConnectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Connection `json:"items"`
}

// PublicKeySpec is the desired state of a PublicKey.
type PublicKeySpec struct {
	// PublicKey is a raw WireGuard key of 32 bytes.
	PublicKey []byte `json:"publicKey,omitempty"`
}

// PublicKey is the key of a peer's gateway.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,path=publickeies,shortName=pk;pkies;pkey
type PublicKey struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PublicKeySpec `json:"spec,omitempty"`
}

// PublicKeyList is a list of PublicKeys.
//
// +kubebuilder:object:root=true
type PublicKeyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PublicKey `json:"items"`
}
