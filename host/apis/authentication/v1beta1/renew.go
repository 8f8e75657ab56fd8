package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// RenewSpec is the desired state of a Renew. Only ConsumerClusterID and IdentityType
// are written by today's peers.
type RenewSpec struct {
	// ConsumerClusterID of the asking cluster.
	ConsumerClusterID liqocorev1beta1.ClusterID `json:"consumerClusterID,omitempty"`
	// PublicKey of the consumer.
	PublicKey []byte `json:"publicKey,omitempty"`
	// CSR is the PEM certificate request.
	//
	// +kubebuilder:validation:MaxLength=10924
	CSR []byte `json:"csr,omitempty"`
	// IdentityType of the identity to renew.
	IdentityType IdentityType `json:"identityType,omitempty"`
	// ResourceSliceRef names the slice that the identity belongs to.
	ResourceSliceRef *corev1.LocalObjectReference `json:"resourceSliceRef,omitempty"`
}

// RenewStatus is the observed state of a Renew.
type RenewStatus struct {
	// AuthParams are the fresh credentials.
	AuthParams *AuthParams `json:"authParams,omitempty"`
}

// Renew carries fresh credentials from a provider to its consumer.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Renew struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RenewSpec   `json:"spec,omitempty"`
	Status RenewStatus `json:"status,omitempty,omitzero"`
}

// RenewList is a list of Renews.
//
// +kubebuilder:object:root=true
type RenewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Renew `json:"items"`
}
