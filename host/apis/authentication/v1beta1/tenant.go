package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// TenantFinalizer is held until a tenant's bindings are gone.
const TenantFinalizer = "tenant.liqo.io/finalizer"

// AuthzPolicy tells how far a provider trusts a tenant that did not shake hands.
//
// +kubebuilder:validation:Enum=KeysExchange;TolerateNoHandshake
type AuthzPolicy string

// The authorization policies.
const (
	// KeysExchange demands nonce, signature and certificate request.
	KeysExchange AuthzPolicy = "KeysExchange"
	// TolerateNoHandshake skips them, and issues no credentials either.
	TolerateNoHandshake AuthzPolicy = "TolerateNoHandshake"
)

// TenantCondition is the administrator's switch for a tenant.
//
// +kubebuilder:validation:Enum=Active;Cordoned;Drained
type TenantCondition string

// The conditions of a tenant.
const (
	TenantConditionActive   TenantCondition = "Active"
	TenantConditionCordoned TenantCondition = "Cordoned"
	TenantConditionDrained  TenantCondition = "Drained"
)

// TenantSpec is the desired state of a Tenant.
type TenantSpec struct {
	// ClusterID of the consumer.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ClusterID is immutable"
	ClusterID liqocorev1beta1.ClusterID `json:"clusterID,omitempty"`
	// AuthzPolicy tells whether a handshake is demanded.
	// +kubebuilder:default="KeysExchange"
	AuthzPolicy *AuthzPolicy `json:"authzPolicy,omitempty"`
	// PublicKey of the consumer: a PEM "PUBLIC KEY", or a raw Ed25519 key of 32 bytes.
	PublicKey []byte `json:"publicKey,omitempty"`
	// CSR is the PEM certificate request of the consumer.
	//
	// +kubebuilder:validation:MaxLength=10924
	CSR []byte `json:"csr,omitempty"`
	// Signature over the nonce.
	Signature []byte `json:"signature,omitempty"`
	// ProxyURL is copied into every AuthParams issued to this consumer.
	ProxyURL *string `json:"proxyURL,omitempty"`
	// TenantCondition is the administrator's switch.
	// +kubebuilder:default="Active"
	TenantCondition TenantCondition `json:"tenantCondition,omitempty"`
}

// TenantStatus is the observed state of a Tenant.
type TenantStatus struct {
	// TenantNamespace is the consumer's namespace in the provider.
	TenantNamespace string `json:"tenantNamespace,omitempty"`
	// AuthParams are the control-plane credentials; absent with TolerateNoHandshake.
	AuthParams *AuthParams `json:"authParams,omitempty"`
	// Conditions has Ready, which says why a handshake is not complete. It is an addition to
	// the wire.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TenantReady is the type of a Tenant's condition: True when the consumer has its credentials
// and rights.
const TenantReady = "Ready"

// Tenant is a consumer, as its provider sees it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=tn,categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Condition",type=string,JSONPath=`.spec.tenantCondition`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Tenant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TenantSpec   `json:"spec,omitempty"`
	Status TenantStatus `json:"status,omitempty,omitzero"`
}

// TenantList is a list of Tenants.
//
// +kubebuilder:object:root=true
type TenantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Tenant `json:"items"`
}
