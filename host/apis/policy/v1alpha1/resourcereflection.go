package v1alpha1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ReflectionDirection says which parts of an object are reflected.
//
// +kubebuilder:validation:Enum=SpecAndStatus;SpecOnly
type ReflectionDirection string

// The directions of a ResourceReflection.
const (
	// DirectionSpecAndStatus copies an object to the provider, and the status of the copy back.
	DirectionSpecAndStatus ReflectionDirection = "SpecAndStatus"
	// DirectionSpecOnly copies an object to the provider. Its status in the consumer belongs to
	// the consumer.
	DirectionSpecOnly ReflectionDirection = "SpecOnly"
)

// ResourceReflectionSpec names a kind of custom resources and says how its objects are
// reflected.
//
// +kubebuilder:validation:XValidation:rule="!self.group.endsWith('.liqo.io') && !self.group.endsWith('.longshore.dev') && !(self.group in ['admissionregistration.k8s.io', 'apiextensions.k8s.io', 'apiregistration.k8s.io', 'authentication.k8s.io', 'authorization.k8s.io', 'certificates.k8s.io', 'coordination.k8s.io', 'discovery.k8s.io', 'events.k8s.io', 'flowcontrol.apiserver.k8s.io', 'metrics.k8s.io', 'networking.k8s.io', 'node.k8s.io', 'rbac.authorization.k8s.io', 'resource.k8s.io', 'scheduling.k8s.io', 'storage.k8s.io', 'storagemigration.k8s.io'])",message="spec.group must be the group of custom resources that are not Longshore's: the operator must name another one"
type ResourceReflectionSpec struct {
	// Group of the kind, for example cert-manager.io.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`
	Group string `json:"group"`
	// Version that is read and written in both clusters, for example v1. Each API server
	// converts it from and to the version that it stores.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Version string `json:"version"`
	// Kind, for example Certificate. It must have a namespace.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind"`
	// Direction says whether the status of the remote object becomes that of the local one.
	// +kubebuilder:default="SpecAndStatus"
	Direction ReflectionDirection `json:"direction,omitempty"`
	// ReflectionType says which objects are reflected: with DenyList all without the annotation
	// liqo.io/skip-reflection, with AllowList those with the annotation
	// liqo.io/allow-reflection.
	// +kubebuilder:default="DenyList"
	// +kubebuilder:validation:Enum=DenyList;AllowList
	ReflectionType string `json:"reflectionType,omitempty"`
	// Providers are the IDs of the clusters to which objects are reflected; empty means all.
	// Where a namespace is offloaded to several providers, name one: a local object has one
	// status.
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Providers []string `json:"providers,omitempty"`
}

// GroupVersionKind returns the kind that is reflected.
func (s *ResourceReflectionSpec) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: s.Group, Version: s.Version, Kind: s.Kind}
}

// notReflectable are the groups of kinds that belong to Kubernetes, whose names look like those of
// custom resources. The validation rule of ResourceReflectionSpec has the same list.
var notReflectable = []string{
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
	"authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
	"flowcontrol.apiserver.k8s.io", "metrics.k8s.io", "networking.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io",
	"resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
}

// IsReflectable reports whether a ResourceReflection may name a kind of the group.
func IsReflectable(group string) bool {
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".liqo.io") && !strings.HasSuffix(group, ".longshore.dev") &&
		!slices.Contains(notReflectable, group)
}

// SchemaMatchesCondition of a ResourceReflection is false when the schema of the kind differs
// between the consumer and a provider.
const SchemaMatchesCondition = "SchemaMatches"

// LocalGenerationAnnotation on a remote custom resource is the generation of the local object that
// it was made from.
const LocalGenerationAnnotation = "policy.longshore.dev/local-generation"

// ResourceReflectionFinalizer keeps a deleted ResourceReflection until the virtual kubelets have
// deleted the remote objects.
const ResourceReflectionFinalizer = "policy.longshore.dev/withdraw"

// ReflectionObservation is the state of one ResourceReflection in one virtual kubelet.
type ReflectionObservation struct {
	// Name of the ResourceReflection.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// UID of the ResourceReflection.
	UID types.UID `json:"uid,omitempty"`
	// Generation of the ResourceReflection that the observation is about.
	Generation int64 `json:"generation,omitempty"`
	// Reason why the kind is not reflected, in one word; empty when it is.
	Reason string `json:"reason,omitempty"`
	// Message says what is wrong and who must act.
	Message string `json:"message,omitempty"`
	// SchemaDifferences says how the schemas of the two clusters differ; empty when they do not.
	SchemaDifferences string `json:"schemaDifferences,omitempty"`
	// Reflected is set from before the first remote object is created until after the last one is
	// deleted.
	Reflected bool `json:"reflected,omitempty"`
}

// VirtualNodeReflection is the state of a ResourceReflection on one virtual node.
type VirtualNodeReflection struct {
	// Name of the component, "virtual-kubelet/<node>".
	Name string `json:"name"`
	// Generation that the state is about.
	Generation int64 `json:"generation,omitempty"`
	// Reason why the kind is not reflected, in one word; empty when it is.
	Reason string `json:"reason,omitempty"`
	// Message says what is wrong and who must act.
	Message string `json:"message,omitempty"`
	// SchemaDifferences says how the schemas of the two clusters differ; empty when they do not.
	SchemaDifferences string `json:"schemaDifferences,omitempty"`
	// Reflected is set from before the first remote object is created until after the last one is
	// deleted.
	Reflected bool `json:"reflected,omitempty"`
}

// ResourceReflectionStatus is the observed state of a ResourceReflection. The manager writes it;
// it summarizes the PolicyComponents.
type ResourceReflectionStatus struct {
	// ObservedGeneration is the generation that the rest of the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions has the conditions Ready and SchemaMatches.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// VirtualNodes by component.
	// +listType=map
	// +listMapKey=name
	VirtualNodes []VirtualNodeReflection `json:"virtualNodes,omitempty"`
}

// ResourceReflection reflects the objects of one kind of custom resources from offloaded
// namespaces to the provider, and their status back. Its name is the kind in lower case, a dot
// and the group. Both operators grant the rights on the kind with a ClusterRole that is
// aggregated into those of virtual kubelets. The remote objects are deleted with the
// ResourceReflection.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=rr,categories=longshore
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.kind.lowerAscii() + '.' + self.spec.group",message="metadata.name must be the kind in lower case, a dot and the group, for example certificate.cert-manager.io"
type ResourceReflection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ResourceReflectionSpec   `json:"spec"`
	Status ResourceReflectionStatus `json:"status,omitempty,omitzero"`
}

// ResourceReflectionList is a list of ResourceReflections.
//
// +kubebuilder:object:root=true
type ResourceReflectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceReflection `json:"items"`
}
