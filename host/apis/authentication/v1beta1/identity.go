package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// Keys of the Secret that carries a kubeconfig.
const (
	// IdentityTypeLabel holds an [IdentityType].
	IdentityTypeLabel = "liqo.io/identity-type"
	// RemoteTenantNamespaceAnnotation names the provider's tenant namespace.
	RemoteTenantNamespaceAnnotation = "liqo.io/remote-tenant-namespace"
	// KubeconfigSecretKey is the key of the Secret that holds the kubeconfig.
	KubeconfigSecretKey = "kubeconfig"
)

// AppliedRenewAnnotation identifies, on an Identity, the credentials of the Renew that it took last.
const AppliedRenewAnnotation = "longshore.dev/applied-renew"

// ControlPlaneGroup is the organization in a control-plane certificate, and so the
// group that stands for every peer's control plane.
const ControlPlaneGroup = "liqo.io"

// IdentityType tells what an identity is for.
//
// +kubebuilder:validation:Enum=ControlPlane;ResourceSlice
type IdentityType string

// The identity types.
const (
	// ControlPlaneIdentityType is used by the replicator.
	ControlPlaneIdentityType IdentityType = "ControlPlane"
	// ResourceSliceIdentityType is used by a virtual kubelet.
	ResourceSliceIdentityType IdentityType = "ResourceSlice"
)

// IdentitySpec is the desired state of an Identity.
type IdentitySpec struct {
	// ClusterID of the provider.
	ClusterID liqocorev1beta1.ClusterID `json:"clusterID,omitempty"`
	// Type of the identity.
	Type IdentityType `json:"type,omitempty"`
	// AuthParams are the credentials received from the provider.
	// +optional
	AuthParams AuthParams `json:"authParams,omitempty"`
	// Namespace is the provider's tenant namespace, the default one of the kubeconfig
	// of a control-plane identity.
	Namespace *string `json:"namespace,omitempty"`
}

// IdentityStatus is the observed state of an Identity.
type IdentityStatus struct {
	// KubeconfigSecretRef names the Secret made of it, in the same namespace.
	KubeconfigSecretRef *corev1.LocalObjectReference `json:"kubeconfigSecretRef,omitempty"`
}

// Identity is what a consumer uses to reach a provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=id,categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="KubeconfigSecret",type=string,priority=1,JSONPath=`.status.kubeconfigSecretRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Identity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   IdentitySpec   `json:"spec,omitempty"`
	Status IdentityStatus `json:"status,omitempty,omitzero"`
}

// IdentityList is a list of Identities.
//
// +kubebuilder:object:root=true
type IdentityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Identity `json:"items"`
}
