package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names and keys of namespace offloading.
const (
	// NamespaceOffloadingName is the only name that a NamespaceOffloading may have.
	NamespaceOffloadingName = "offloading"
	// SchedulingEnabledLabel is "true" on a namespace whose pods may be offloaded.
	SchedulingEnabledLabel = "liqo.io/scheduling-enabled"
	// NamespaceOffloadingFinalizer is kept until all remote namespaces are deleted.
	NamespaceOffloadingFinalizer = "namespaceoffloading-controller.liqo.io/finalizer"
)

// NamespaceMappingStrategyType determines the name of the remote namespace.
//
// +kubebuilder:validation:Enum=EnforceSameName;DefaultName;SelectedName
type NamespaceMappingStrategyType string

// The mapping strategies.
const (
	// EnforceSameNameMappingStrategyType uses the local name.
	EnforceSameNameMappingStrategyType NamespaceMappingStrategyType = "EnforceSameName"
	// DefaultNameMappingStrategyType uses "<local name>-<local ClusterID>".
	DefaultNameMappingStrategyType NamespaceMappingStrategyType = "DefaultName"
	// SelectedNameMappingStrategyType uses spec.remoteNamespaceName.
	SelectedNameMappingStrategyType NamespaceMappingStrategyType = "SelectedName"
)

// PodOffloadingStrategyType determines where the pods of a namespace may run.
//
// +kubebuilder:validation:Enum=Local;Remote;LocalAndRemote
type PodOffloadingStrategyType string

// The offloading strategies.
const (
	LocalPodOffloadingStrategyType          PodOffloadingStrategyType = "Local"
	RemotePodOffloadingStrategyType         PodOffloadingStrategyType = "Remote"
	LocalAndRemotePodOffloadingStrategyType PodOffloadingStrategyType = "LocalAndRemote"
)

// NamespaceOffloadingSpec is the desired state of a NamespaceOffloading.
type NamespaceOffloadingSpec struct {
	// NamespaceMappingStrategy determines the name of the remote namespace. Immutable.
	// +kubebuilder:default="DefaultName"
	// +optional
	NamespaceMappingStrategy NamespaceMappingStrategyType `json:"namespaceMappingStrategy,omitempty"`
	// RemoteNamespaceName for the strategy SelectedName. Immutable.
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty"`
	// PodOffloadingStrategy determines where pods may run.
	// +kubebuilder:default="LocalAndRemote"
	// +optional
	PodOffloadingStrategy PodOffloadingStrategyType `json:"podOffloadingStrategy,omitempty"`
	// ClusterSelector selects virtual nodes by the labels of their Nodes. A selector without terms
	// selects all.
	// +optional
	ClusterSelector corev1.NodeSelector `json:"clusterSelector,omitempty,omitzero"`
}

// OffloadingPhaseType summarizes the conditions of an offloaded namespace.
type OffloadingPhaseType string

// The phases of an offloaded namespace.
const (
	ReadyOffloadingPhaseType             OffloadingPhaseType = "Ready"
	NoClusterSelectedOffloadingPhaseType OffloadingPhaseType = "NoClusterSelected"
	InProgressOffloadingPhaseType        OffloadingPhaseType = "InProgress"
	SomeFailedOffloadingPhaseType        OffloadingPhaseType = "SomeFailed"
	AllFailedOffloadingPhaseType         OffloadingPhaseType = "AllFailed"
	TerminatingOffloadingPhaseType       OffloadingPhaseType = "Terminating"
)

// RemoteNamespaceConditionType is the type of a condition of a remote namespace.
type RemoteNamespaceConditionType string

// The condition types of a remote namespace.
const (
	// NamespaceOffloadingRequired is True if the cluster is selected.
	NamespaceOffloadingRequired RemoteNamespaceConditionType = "OffloadingRequired"
	// NamespaceReady is True if the remote namespace exists.
	NamespaceReady RemoteNamespaceConditionType = "Ready"
)

// PodsFollowStrategyCondition is False while pods run where the strategy does not permit it.
const PodsFollowStrategyCondition = "PodsFollowStrategy"

// The reasons why a pod does not run where the strategy of its namespace says.
const (
	// CreatedBeforeOffloadingReason: the pod was created before its namespace was offloaded.
	CreatedBeforeOffloadingReason = "CreatedBeforeOffloading"
	// StrategyChangedReason: the pod was placed by another strategy.
	StrategyChangedReason = "StrategyChanged"
)

// RemoteNamespaceCondition is the state of one remote namespace.
type RemoteNamespaceCondition struct {
	// Type of the condition.
	Type RemoteNamespaceConditionType `json:"type"`
	// Status of the condition.
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status corev1.ConditionStatus `json:"status"`
	// LastTransitionTime is when the status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty,omitzero"`
	// Reason for the last transition, in CamelCase.
	Reason string `json:"reason,omitempty"`
	// Message is human-readable.
	Message string `json:"message,omitempty"`
}

// RemoteNamespaceConditions are the conditions of one remote namespace.
type RemoteNamespaceConditions []RemoteNamespaceCondition

// NamespaceOffloadingStatus is the observed state of a NamespaceOffloading.
type NamespaceOffloadingStatus struct {
	// RemoteNamespaceName is the name in every selected cluster.
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty"`
	// OffloadingPhase summarizes the conditions.
	OffloadingPhase OffloadingPhaseType `json:"offloadingPhase,omitempty"`
	// RemoteNamespacesConditions by the name of the NamespaceMap, which is the provider's
	// ClusterID.
	RemoteNamespacesConditions map[string]RemoteNamespaceConditions `json:"remoteNamespacesConditions,omitempty"`
	// ObservedGeneration is the last reconciled generation.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions has PodsFollowStrategy, which counts the pods that run where the strategy does not
	// permit it. It is an addition to the wire.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NamespaceOffloading extends its namespace to other clusters. Its name must be "offloading".
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=nso;nsof;nsoff;nsoffloading,categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="NamespaceMappingStrategy",type=string,JSONPath=`.spec.namespaceMappingStrategy`
// +kubebuilder:printcolumn:name="PodOffloadingStrategy",type=string,JSONPath=`.spec.podOffloadingStrategy`
// +kubebuilder:printcolumn:name="OffloadingPhase",type=string,JSONPath=`.status.offloadingPhase`
// +kubebuilder:printcolumn:name="RemoteNamespaceName",type=string,priority=10,JSONPath=`.status.remoteNamespaceName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NamespaceOffloading struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NamespaceOffloadingSpec   `json:"spec"`
	Status NamespaceOffloadingStatus `json:"status,omitempty,omitzero"`
}

// NamespaceOffloadingList is a list of NamespaceOffloadings.
//
// +kubebuilder:object:root=true
type NamespaceOffloadingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NamespaceOffloading `json:"items"`
}
