package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// QuotaClassAnnotation on a Quota has the class of the ResourceSlice for which its resources were granted.
const QuotaClassAnnotation = "longshore.dev/resource-slice-class"

// LimitsEnforcement determines which requests and limits a provider requires of pods.
//
// +kubebuilder:validation:Enum=Hard;Soft;None
type LimitsEnforcement string

// The enforcements.
const (
	// HardLimitsEnforcement requires requests of cpu and memory, and equal limits.
	HardLimitsEnforcement LimitsEnforcement = "Hard"
	// SoftLimitsEnforcement requires requests of cpu and memory.
	SoftLimitsEnforcement LimitsEnforcement = "Soft"
	// NoLimitsEnforcement requires none.
	NoLimitsEnforcement LimitsEnforcement = "None"
)

// QuotaSpec is the desired state of a Quota.
type QuotaSpec struct {
	// User is the CN of the consumer's certificate.
	// +kubebuilder:validation:MinLength=1
	User string `json:"user"`
	// LimitsEnforcement for the user's pods.
	LimitsEnforcement LimitsEnforcement `json:"limitsEnforcement,omitempty"`
	// Resources granted.
	Resources corev1.ResourceList `json:"resources"`
	// Cordoned prevents new pods.
	Cordoned *bool `json:"cordoned,omitempty"`
}

// QuotaReservation is a ShadowPod, or a change of its resources, that was admitted and that is
// not observed yet.
type QuotaReservation struct {
	// Namespace of the ShadowPod.
	Namespace string `json:"namespace"`
	// Name of the ShadowPod.
	Name string `json:"name"`
	// UID of the ShadowPod.
	UID types.UID `json:"uid"`
	// ResourceVersion of the ShadowPod before the change; empty for a new one.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Resources that it requests.
	Resources corev1.ResourceList `json:"resources"`
	// Time at which it was admitted.
	Time metav1.Time `json:"time"`
}

// QuotaClaim is a claim, or its expansion, that was admitted and that may not be stored yet.
type QuotaClaim struct {
	// Namespace of the claim.
	Namespace string `json:"namespace"`
	// Name of the claim.
	Name string `json:"name"`
	// Storage that it requests.
	Storage resource.Quantity `json:"storage"`
	// Time at which it was admitted.
	Time metav1.Time `json:"time"`
}

// QuotaStatus is the observed state of a Quota. The reference system neither writes nor reads it.
type QuotaStatus struct {
	// Used by the live ShadowPods of the user, and by reservations of ShadowPods.
	Used corev1.ResourceList `json:"used,omitempty"`
	// Ending is what pods hold whose ShadowPods are gone: a consumer chooses their grace periods. The manager
	// writes it.
	Ending corev1.ResourceList `json:"ending,omitempty"`
	// EndingResourceVersion is that of the newest deletion of a ShadowPod that Ending accounts for. The
	// webhook counts what is deleted later.
	EndingResourceVersion string `json:"endingResourceVersion,omitempty"`
	// Abandoned is what pods of the consumer hold that no Quota counts, since their ResourceSlices are gone. It counts
	// in each Quota of the consumer. The manager writes it.
	Abandoned corev1.ResourceList `json:"abandoned,omitempty"`
	// Reservations of ShadowPods that were admitted and that are not observed yet.
	// +listType=atomic
	Reservations []QuotaReservation `json:"reservations,omitempty"`
	// Claims that were admitted in the last 90 seconds and that may not be stored yet. They are in the
	// oldest Quota of a consumer that bounds storage.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Claims []QuotaClaim `json:"claims,omitempty"`
	// ObservedResourceVersion is that of the newest ShadowPod whose reservation was removed
	// because it was observed.
	ObservedResourceVersion string `json:"observedResourceVersion,omitempty"`
}

// Quota limits the resources of a consumer's identity.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=qt,categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.limitsEnforcement`
// +kubebuilder:printcolumn:name="Cordoned",type=boolean,JSONPath=`.spec.cordoned`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="User",type=string,priority=1,JSONPath=`.spec.user`
type Quota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   QuotaSpec   `json:"spec,omitempty"`
	Status QuotaStatus `json:"status,omitempty,omitzero"`
}

// QuotaList is a list of Quotas.
//
// +kubebuilder:object:root=true
type QuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Quota `json:"items"`
}
