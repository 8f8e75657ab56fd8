package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Difference is what a policy in mode Shadow would have changed in an object; no values.
type Difference struct {
	// Time at which it was found.
	// +optional
	Time metav1.Time `json:"time,omitempty,omitzero"`
	// Point at which the policy was called.
	Point ExtensionPoint `json:"point"`
	// Kind of the object.
	Kind string `json:"kind,omitempty"`
	// Namespace of the local object.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object, or its generateName.
	Name string `json:"name,omitempty"`
	// Operations that would have changed it, as "verb path" or "verb path[key key]".
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Operations []string `json:"operations,omitempty"`
	// Omitted is the number of further operations.
	Omitted int32 `json:"omitted,omitempty"`
	// Denied is the reason with which the policy would have refused the object.
	Denied string `json:"denied,omitempty"`
}

// PolicyObservation is the state of one OffloadingPolicy in one component.
type PolicyObservation struct {
	// Name of the OffloadingPolicy.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// UID of the OffloadingPolicy.
	UID types.UID `json:"uid,omitempty"`
	// Generation of the policy by which the component decides: an earlier one while the
	// current one is being loaded or is refused, zero when it has none.
	Generation int64 `json:"generation,omitempty"`
	// Digest of the module by which it decides, "sha256:…".
	Digest string `json:"digest,omitempty"`
	// Since is when the component began to decide by this generation and digest.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`
	// Enforced is whether the answers of this version are applied.
	Enforced bool `json:"enforced,omitempty"`
	// NotCalled is set when the component calls policies at none of the extension points to which
	// this one is bound.
	NotCalled bool `json:"notCalled,omitempty"`
	// Reason is why the component does not, or not only, decide by the current version, in
	// one word; empty when nothing is wrong.
	Reason string `json:"reason,omitempty"`
	// Message says what is wrong and who must act.
	Message string `json:"message,omitempty"`
	// Manifest of the module by which it decides.
	Manifest *ManifestSummary `json:"manifest,omitempty"`
	// Differences are the latest ones that a policy in mode Shadow would have made. They are
	// written once a minute at most.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Differences []Difference `json:"differences,omitempty"`
}

// PolicyComponentStatus is what a component reports.
type PolicyComponentStatus struct {
	// Component by its name: "webhook/<pod>", "virtual-kubelet/<node>".
	Component string `json:"component,omitempty"`
	// Policies by name.
	// +listType=map
	// +listMapKey=name
	Policies []PolicyObservation `json:"policies,omitempty"`
	// Reflections are the ResourceReflections of a virtual kubelet, by name.
	// +listType=map
	// +listMapKey=name
	Reflections []ReflectionObservation `json:"reflections,omitempty"`
}

// PolicyComponent is the report of one process that decides by policies: a replica of the
// webhook or a virtual kubelet. The component writes it when its state changes. It is owned
// by the replica's Pod or by the VirtualNode and is deleted with it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,categories=longshore
// +kubebuilder:printcolumn:name="Component",type=string,JSONPath=`.status.component`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PolicyComponent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status PolicyComponentStatus `json:"status,omitempty,omitzero"`
}

// PolicyComponentList is a list of PolicyComponents.
//
// +kubebuilder:object:root=true
type PolicyComponentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PolicyComponent `json:"items"`
}
