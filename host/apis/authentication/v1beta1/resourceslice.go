package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// Annotations of a ResourceSlice.
const (
	// CreateVirtualNodeAnnotation asks for a VirtualNode of the slice's name, unless
	// it is empty or "false".
	CreateVirtualNodeAnnotation = "liqo.io/create-virtual-node"
	// CordonAnnotation stops new pods on a slice.
	CordonAnnotation = "liqo.io/cordon"
	// CordonTenantAnnotation does so for the whole tenant.
	CordonTenantAnnotation = "liqo.io/cordon-tenant"
	// ResourceSliceNameLabel names the slice that a VirtualNode was made from.
	ResourceSliceNameLabel = "liqo.io/resourceslice-name"
)

// ResourceSliceClass selects who grants resources; "" and "default" mean the built-in one.
type ResourceSliceClass string

// ResourceSliceConditionType names what a provider decides about a slice.
//
// +kubebuilder:validation:Enum=Authentication;Resources
type ResourceSliceConditionType string

// The condition types of a slice.
const (
	ResourceSliceConditionTypeAuthentication ResourceSliceConditionType = "Authentication"
	ResourceSliceConditionTypeResources      ResourceSliceConditionType = "Resources"
)

// ResourceSliceConditionStatus is a provider's decision about a slice.
//
// +kubebuilder:validation:Enum=Accepted;Denied
type ResourceSliceConditionStatus string

// The decisions about a slice.
const (
	ResourceSliceConditionAccepted ResourceSliceConditionStatus = "Accepted"
	ResourceSliceConditionDenied   ResourceSliceConditionStatus = "Denied"
)

// ResourceSliceCondition is one decision about a slice.
type ResourceSliceCondition struct {
	// Type of the condition.
	Type ResourceSliceConditionType `json:"type"`
	// Status of the condition.
	Status ResourceSliceConditionStatus `json:"status"`
	// LastTransitionTime is when status, reason or message changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty,omitzero"`
	// Reason for the decision, in CamelCase.
	Reason string `json:"reason,omitempty"`
	// Message for people.
	Message string `json:"message,omitempty"`
}

// StorageType is a StorageClass that a provider offers.
type StorageType struct {
	// StorageClassName in the provider.
	StorageClassName string `json:"storageClassName"`
	// Default marks the class used when none is asked for.
	Default bool `json:"default,omitempty"`
}

// IngressType is an IngressClass that a provider offers.
type IngressType struct {
	// IngressClassName in the provider.
	IngressClassName string `json:"ingressClassName"`
	// Default marks the class used when none is asked for.
	Default bool `json:"default,omitempty"`
}

// LoadBalancerType is a load balancer class that a provider offers.
type LoadBalancerType struct {
	// LoadBalancerClassName in the provider.
	LoadBalancerClassName string `json:"loadBalancerClassName"`
	// Default marks the class used when none is asked for.
	Default bool `json:"default,omitempty"`
}

// ResourceSliceSpec is the desired state of a ResourceSlice; the consumer owns it.
type ResourceSliceSpec struct {
	// ConsumerClusterID of the asking cluster.
	ConsumerClusterID *liqocorev1beta1.ClusterID `json:"consumerClusterID,omitempty"`
	// ProviderClusterID of the asked cluster.
	ProviderClusterID *liqocorev1beta1.ClusterID `json:"providerClusterID,omitempty"`
	// Resources that are asked for.
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// Class of the slice.
	Class ResourceSliceClass `json:"class,omitempty"`
	// CSR is the PEM certificate request of the slice's identity.
	//
	// +kubebuilder:validation:MaxLength=10924
	CSR []byte `json:"csr,omitempty"`
}

// ResourceSliceStatus is the observed state of a ResourceSlice; the provider owns it.
type ResourceSliceStatus struct {
	// Conditions are the decisions about the slice.
	Conditions []ResourceSliceCondition `json:"conditions,omitempty"`
	// Resources that were granted.
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// AuthParams are the credentials of the slice.
	AuthParams *AuthParams `json:"authParams,omitempty"`
	// StorageClasses offered.
	StorageClasses []StorageType `json:"storageClasses,omitempty"`
	// IngressClasses offered.
	IngressClasses []IngressType `json:"ingressClasses,omitempty"`
	// LoadBalancerClasses offered.
	LoadBalancerClasses []LoadBalancerType `json:"loadBalancerClasses,omitempty"`
	// NodeLabels of the provider.
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	// NodeSelector that pods on this slice must carry in the provider.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}

// ResourceSlice asks a provider for a share of its resources.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=rslice,categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Authentication",type=string,JSONPath=`.status.conditions[?(@.type=="Authentication")].status`
// +kubebuilder:printcolumn:name="Resources",type=string,JSONPath=`.status.conditions[?(@.type=="Resources")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceSlice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResourceSliceSpec   `json:"spec,omitempty"`
	Status ResourceSliceStatus `json:"status,omitempty,omitzero"`
}

// ResourceSliceList is a list of ResourceSlices.
//
// +kubebuilder:object:root=true
type ResourceSliceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceSlice `json:"items"`
}
