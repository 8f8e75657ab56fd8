package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Keys of policies (docs/explanation/architecture.md, 2).
const (
	// DecisionsAnnotation on an admitted pod, on a ShadowPod, and on a copy in the provider
	// that a policy filtered, records which policies wrote or dropped which paths; no values.
	DecisionsAnnotation = "policy.longshore.dev/decisions"
	// EnforcedAnnotation on an OffloadingPolicy holds an [EnforcedVersion] as JSON: the
	// version that was last enforced. The manager keeps it while spec.mode is Enforce. A
	// component that starts and cannot use the current version applies failurePolicy to the
	// objects that the policy matches, instead of letting them pass.
	EnforcedAnnotation = "policy.longshore.dev/enforced"
	// PolicyLabel is "true" on a ConfigMap for which the manager keeps an OffloadingPolicy of
	// the same name.
	PolicyLabel = "longshore.dev/policy"
	// PolicyConfigMapSpecKey is the key of such a ConfigMap that may hold the spec.
	PolicyConfigMapSpecKey = "policy.yaml"
	// ManagedByLabel on an OffloadingPolicy says what Longshore keeps it from. Without the
	// label the policy is unmanaged: Longshore does not change its spec.
	ManagedByLabel = "policy.longshore.dev/managed-by"
	// ManagedByConfigMap: from the labeled ConfigMap of its name.
	ManagedByConfigMap = "configmap"
	// BuiltInDefault names the built-in module with the default policies.
	BuiltInDefault = "default"
)

// ExtensionPoint is a decision that the host asks policies to make.
//
// +kubebuilder:validation:Enum=PodMutation;OffloadingPatch;AntiAffinityPreset;MetadataFilter;ResourceMutation;ShadowPodAdmission;ResourceSliceAdmission
type ExtensionPoint string

// The extension points (docs/explanation/architecture.md, 2.1); the names are the contract's.
const (
	PodMutationPoint            ExtensionPoint = "PodMutation"
	OffloadingPatchPoint        ExtensionPoint = "OffloadingPatch"
	AntiAffinityPresetPoint     ExtensionPoint = "AntiAffinityPreset"
	MetadataFilterPoint         ExtensionPoint = "MetadataFilter"
	ResourceMutationPoint       ExtensionPoint = "ResourceMutation"
	ShadowPodAdmissionPoint     ExtensionPoint = "ShadowPodAdmission"
	ResourceSliceAdmissionPoint ExtensionPoint = "ResourceSliceAdmission"
)

// FailurePolicyType says what happens when a policy gives no valid answer.
//
// +kubebuilder:validation:Enum=Fail;Ignore;LastGood
type FailurePolicyType string

// The failure policies.
const (
	// FailurePolicyFail refuses the object.
	FailurePolicyFail FailurePolicyType = "Fail"
	// FailurePolicyIgnore goes on as if the policy had answered nothing.
	FailurePolicyIgnore FailurePolicyType = "Ignore"
	// FailurePolicyLastGood calls the previous version, if that has given valid answers
	// since the component started. Otherwise it refuses the object.
	FailurePolicyLastGood FailurePolicyType = "LastGood"
)

// Mode says what is done with a policy's answers.
//
// +kubebuilder:validation:Enum=Enforce;Shadow;Disabled
type Mode string

// The modes.
const (
	// ModeEnforce applies the answers.
	ModeEnforce Mode = "Enforce"
	// ModeShadow calls the policy on real traffic, records what would change, and applies
	// nothing.
	ModeShadow Mode = "Shadow"
	// ModeDisabled does not call the policy. For a policy named like an implicit default it
	// switches that default off.
	ModeDisabled Mode = "Disabled"
)

// Verb is an operation that a policy may answer.
//
// +kubebuilder:validation:Enum=set;remove;merge;ensure;require
type Verb string

// ConfigMapSource is a module in a ConfigMap's binaryData: .wasm, .wasm.gz or .wasm.zst.
// One that is too large for a ConfigMap (1 MiB) may be cut into parts.
//
// +kubebuilder:validation:XValidation:rule="!has(self.parts) || has(self.digest)",message="the operator must set digest with parts: it distinguishes a complete module from a mixture of two versions"
type ConfigMapSource struct {
	// Namespace of the ConfigMap. Longshore's own, unless the operator allows others.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key of the module, in the ConfigMap and in each of the parts. May be left out when
	// the binaryData of each has one key only.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
	// Parts are the names of the ConfigMaps, of the same namespace, that hold the rest of
	// the module: its bytes are those of the ConfigMap followed by those of each part, in
	// this order. Needs digest.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=15
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Parts []string `json:"parts,omitempty"`
	// Digest of the module's bytes before they are unpacked: "sha256:" and the output of
	// sha256sum for the file. Other bytes are not loaded, and the previous version stays.
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`
}

// ModuleSource says where the WebAssembly module comes from; exactly one is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.builtIn) != has(self.configMap)",message="the operator must set exactly one of builtIn and configMap"
type ModuleSource struct {
	// BuiltIn names a module that Longshore carries: "default".
	// +kubebuilder:validation:Enum=default
	BuiltIn string `json:"builtIn,omitempty"`
	// ConfigMap that holds the module.
	ConfigMap *ConfigMapSource `json:"configMap,omitempty"`
}

// MatchCondition is a CEL expression that must be true for the policy to be called.
type MatchCondition struct {
	// Name of the condition, for messages.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Expression of CEL over object (the object being decided, before any policy),
	// namespaceObject (metadata.name and metadata.labels of the local namespace) and
	// virtualNode (its name, empty at admission, the provider's oldest for what its
	// virtual nodes share), of type bool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
}

// Match selects the objects for which a policy is called; a field that is left out
// matches all.
type Match struct {
	// NamespaceSelector over the labels of the local namespace.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ObjectSelector over the labels of the local object.
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
	// VirtualNodes by name; at admission, where no node is chosen yet, a policy
	// with this list is not called. Objects that all virtual nodes of a provider share
	// (ConfigMaps, Secrets, Services) count as the oldest one's.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	VirtualNodes []string `json:"virtualNodes,omitempty"`
	// MatchConditions must all be true.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	MatchConditions []MatchCondition `json:"matchConditions,omitempty"`
}

// Limits lower what a call may use; they cannot raise it above the host's bounds, which
// are MaxFuel and MaxMemoryBytes of the contract. An amount with a large exponent, which the pattern refuses,
// is not compared: the API server would compute it for hours.
//
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || string(self.memory).matches('[eE][+-]?[0-9]{3}') || quantity(string(self.memory)).compareTo(quantity('32Mi')) <= 0",message="spec.limits.memory is more than the host's bound of 32Mi: the operator must lower it, or remove it"
type Limits struct {
	// Fuel in ticks: one for each function entry and loop iteration, more for what takes longer.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2000000
	Fuel *int64 `json:"fuel,omitempty"`
	// Memory of an instance, in bytes, at most 32Mi.
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// WriteRule allows verbs at a path and below it.
type WriteRule struct {
	// Path is a JSON pointer into the object without indices, e.g. "/spec/tolerations"
	// or "/spec/containers[*]/image".
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`
	// Verbs allowed there.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	Verbs []Verb `json:"verbs"`
	// Keys narrows merge and remove to these map keys; none allows every key.
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Keys []string `json:"keys,omitempty"`
}

// Allow narrows what the module's manifest declares. A list that is left out
// narrows nothing.
type Allow struct {
	// Reads are JSON pointers into the facts, e.g. "/object/spec/tolerations".
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Reads []string `json:"reads,omitempty"`
	// Writes are the operations that are accepted.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Writes []WriteRule `json:"writes,omitempty"`
}

// OffloadingPolicySpec binds a module to extension points.
type OffloadingPolicySpec struct {
	// Module that answers.
	Module ModuleSource `json:"module"`
	// Points at which it is called; all that the module answers when left out.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Points []ExtensionPoint `json:"points,omitempty"`
	// Order among the policies of a point, lowest first. Needed when two policies
	// write the same path; those without come last, by name.
	Order *int32 `json:"order,omitempty"`
	// Match selects the objects for which the policy is called.
	Match *Match `json:"match,omitempty"`
	// Settings of the module, as it defines them.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Settings *runtime.RawExtension `json:"settings,omitempty"`
	// FailurePolicy says what happens when the policy gives no valid answer: Fail refuses
	// the object, Ignore goes on without the policy, LastGood calls the previous version,
	// if that has answered since the component started. A policy that keeps failing is
	// quarantined: the failure policy applies without a call, until a probe is answered. It
	// also applies, with LastGood as Fail, when the policy was enforced before and currently
	// has no usable version.
	// +kubebuilder:default="Fail"
	FailurePolicy FailurePolicyType `json:"failurePolicy,omitempty"`
	// Limits of a call.
	Limits *Limits `json:"limits,omitempty"`
	// Allow narrows what the module may read and write.
	Allow *Allow `json:"allow,omitempty"`
	// Mode says what is done with the answers: Enforce applies them, Shadow records what
	// they would change, Disabled does not ask.
	// +kubebuilder:default="Enforce"
	Mode Mode `json:"mode,omitempty"`
}

// ReadyCondition is true when every component decides by the current generation of the
// policy with the same module, and none has a problem with it.
const ReadyCondition = "Ready"

// PointSummary is what the module declares for one extension point.
type PointSummary struct {
	// Point that it answers.
	Point ExtensionPoint `json:"point"`
	// Moments at which it answers; empty means all.
	Moments []string `json:"moments,omitempty"`
	// Reads are the facts it is given.
	Reads []string `json:"reads,omitempty"`
	// Writes are the operations it may answer.
	Writes []WriteRule `json:"writes,omitempty"`
}

// ManifestSummary is what a module declares, limited to the points that the policy is
// bound to.
type ManifestSummary struct {
	// Name of the module.
	Name string `json:"name,omitempty"`
	// Version of the module.
	Version string `json:"version,omitempty"`
	// Points that the policy is bound to.
	// +listType=map
	// +listMapKey=point
	Points []PointSummary `json:"points,omitempty"`
}

// EnforcedPoint is an extension point at which a version was enforced.
type EnforcedPoint struct {
	// Point at which it was called.
	Point ExtensionPoint `json:"point"`
	// Moments at which it was called; empty means all.
	Moments []string `json:"moments,omitempty"`
}

// EnforcedVersion is the content of the [EnforcedAnnotation]: a version of a policy that a
// component has bound in mode Enforce.
type EnforcedVersion struct {
	// Generation of the policy.
	Generation int64 `json:"generation,omitempty"`
	// Module by its name.
	Module string `json:"module,omitempty"`
	// Digest of the module, "sha256:…".
	Digest string `json:"digest,omitempty"`
	// Points at which it was called.
	Points []EnforcedPoint `json:"points,omitempty"`
}

// OffloadingPolicyStatus is the observed state of an OffloadingPolicy. The manager writes
// it; it summarizes the PolicyComponents.
type OffloadingPolicyStatus struct {
	// ObservedGeneration is the generation that the rest of the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions has the condition Ready.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Components is how many components decide by the current generation and digest, and how
	// many run policies: "2/3".
	Components string `json:"components,omitempty"`
	// Digest of the module that decides, "sha256:…".
	Digest string `json:"digest,omitempty"`
	// ShortDigest is the beginning of the digest, as in logs, errors and the decisions
	// annotation.
	ShortDigest string `json:"shortDigest,omitempty"`
	// Points that the policy answers.
	// +listType=set
	Points []ExtensionPoint `json:"points,omitempty"`
	// PointNames are the points as one text, "PodMutation,OffloadingPatch", which kubectl prints.
	PointNames string `json:"pointNames,omitempty"`
	// Manifest of the module that decides.
	Manifest *ManifestSummary `json:"manifest,omitempty"`
}

// OffloadingPolicy binds a sandboxed WebAssembly module to the extension points at
// which Longshore decides.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=op;opol,categories=longshore
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Digest",type=string,JSONPath=`.status.shortDigest`
// +kubebuilder:printcolumn:name="Points",type=string,JSONPath=`.status.pointNames`
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.components`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type OffloadingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   OffloadingPolicySpec   `json:"spec"`
	Status OffloadingPolicyStatus `json:"status,omitempty,omitzero"`
}

// OffloadingPolicyList is a list of OffloadingPolicies.
//
// +kubebuilder:object:root=true
type OffloadingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []OffloadingPolicy `json:"items"`
}
