package v1beta1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of NamespaceMaps and their namespaces.
const (
	// ManagedByNamespaceMapAnnotation on a remote namespace and its RoleBinding is
	// "<namespace>/<name>" of its NamespaceMap.
	ManagedByNamespaceMapAnnotation = "liqo.io/managed-by-namespace-map"
	// OriginalNameAnnotation on a remote namespace is the local namespace's name.
	OriginalNameAnnotation = "liqo.io/original-name"
	// VirtualNodesAnnotation on a NamespaceMap of the consumer lists the VirtualNodes that use
	// it, "<namespace>/<name>" separated by commas, until they are withdrawn. A VirtualNode that
	// is listed and does not exist was deleted without its finalizer.
	VirtualNodesAnnotation = "longshore.dev/virtual-nodes"
	// KeepNamespaceAnnotation with the value "true" on a remote namespace keeps the namespace when it
	// is no longer offloaded. The provider sets it. The consumer's objects are deleted one by one.
	KeepNamespaceAnnotation = "longshore.dev/keep-namespace"
	// CustomLimitsAnnotation with the value "true" on the ResourceQuota of a remote namespace keeps
	// the limits that an administrator of the provider has set.
	CustomLimitsAnnotation = "longshore.dev/custom-limits"
	// NamespaceMapFinalizer is the finalizer of the provider's controller.
	NamespaceMapFinalizer = "namespacemap-controller.liqo.io/finalizer"
)

// MaxMappings is how many mappings a NamespaceMap has at most, and MaxStatuses how many its status has: with those of
// namespaces that are being deleted. The CustomResourceDefinition bounds them (hack/generate).
const (
	MaxMappings = 1000
	MaxStatuses = 2 * MaxMappings
)

// MappingPhase is the state of a remote namespace.
//
// +kubebuilder:validation:Enum=Accepted;CreationLoopBackOff;Terminating
type MappingPhase string

// The states of a remote namespace.
const (
	MappingAccepted            MappingPhase = "Accepted"
	MappingCreationLoopBackOff MappingPhase = "CreationLoopBackOff"
	MappingTerminating         MappingPhase = "Terminating"
)

// RemoteNamespaceTerminatingReason is the reason of conditions, and of the status of local pods, while the
// provider deletes a remote namespace that is requested.
const RemoteNamespaceTerminatingReason = "RemoteNamespaceTerminating"

// RemoteNamespaceStatus is a remote namespace and its state.
type RemoteNamespaceStatus struct {
	// RemoteNamespace is the name of the namespace.
	RemoteNamespace string `json:"remoteNamespace,omitempty"`
	// Phase is the state of the namespace.
	Phase MappingPhase `json:"phase,omitempty"`
	// Message is why the namespace was not created, or what keeps it while it is being deleted.
	Message string `json:"message,omitempty"`
}

// IsAccepted reports whether the provider has created the namespace.
func (s RemoteNamespaceStatus) IsAccepted() bool {
	return s.RemoteNamespace != "" && s.Phase == MappingAccepted
}

// IsEnding reports whether an accepted namespace is being deleted although the consumer requests it. It
// keeps the phase Accepted, so that no virtual kubelet ends its pods; only then does that phase have a message.
func (s RemoteNamespaceStatus) IsEnding() bool { return s.IsAccepted() && s.Message != "" }

// NamespaceMapSpec is the desired state of a NamespaceMap; the consumer writes it.
type NamespaceMapSpec struct {
	// DesiredMapping from local to remote namespace names.
	DesiredMapping map[string]string `json:"desiredMapping,omitempty"`
}

// NamespaceMapStatus is the observed state of a NamespaceMap; the provider writes it.
type NamespaceMapStatus struct {
	// CurrentMapping from local namespace names to remote namespaces.
	CurrentMapping map[string]RemoteNamespaceStatus `json:"currentMapping,omitempty"`
}

// NamespaceMap requests namespaces of a consumer from a provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=nm;nsmap,categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Local",type=string,JSONPath=`.metadata.labels.liqo\.io/replication`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NamespaceMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NamespaceMapSpec   `json:"spec,omitempty"`
	Status NamespaceMapStatus `json:"status,omitempty,omitzero"`
}

// NamespaceMapList is a list of NamespaceMaps.
//
// +kubebuilder:object:root=true
type NamespaceMapList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NamespaceMap `json:"items"`
}

// VirtualNodes returns the VirtualNodes that use the NamespaceMap, as "<namespace>/<name>".
func (m *NamespaceMap) VirtualNodes() []string {
	return strings.FieldsFunc(m.Annotations[VirtualNodesAnnotation], func(r rune) bool { return r == ',' })
}

// AddVirtualNode records that a VirtualNode uses the NamespaceMap. It returns false if that was
// recorded before.
func (m *NamespaceMap) AddVirtualNode(name string) bool {
	names := m.VirtualNodes()
	if slices.Contains(names, name) {
		return false
	}
	names = append(names, name)
	slices.Sort(names)
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, VirtualNodesAnnotation, strings.Join(names, ","))
	return true
}

// RemoveVirtualNode records that a VirtualNode was withdrawn. It returns false if it was not
// recorded.
func (m *NamespaceMap) RemoveVirtualNode(name string) bool {
	names := m.VirtualNodes()
	kept := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
	if len(kept) == len(names) {
		return false
	}
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, VirtualNodesAnnotation, strings.Join(kept, ","))
	return true
}
