package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Keys of policies (docs/explanation/architecture.md, 2).
const (
	// DecisionsAnnotation on an admitted pod, on a ShadowPod, and on a copy in the provider
	// that a policy filtered, tells which policies wrote or dropped which paths; no values.
	DecisionsAnnotation = "policy.longshore.dev/decisions"
	// PolicyLabel is "true" on a ConfigMap from which an OffloadingPolicy of the same
	// name is kept.
	PolicyLabel = "longshore.dev/policy"
	// PolicyConfigMapSpecKey is the key of such a ConfigMap that may hold the spec.
	PolicyConfigMapSpecKey = "policy.yaml"
	// ManagedByLabel on an OffloadingPolicy tells that Longshore keeps it, and from
	// what; without it, it is its author's.
	ManagedByLabel = "policy.longshore.dev/managed-by"
	// ManagedByConfigMap: from the labeled ConfigMap of its name.
	ManagedByConfigMap = "configmap"
	// BuiltInDefault names the built-in module with the default policies.
	BuiltInDefault = "default"
)

// ExtensionPoint is a question that the host asks its policies.
//
// +kubebuilder:validation:Enum=PodMutation;OffloadingPatch;AntiAffinityPreset;MetadataFilter;ResourceMutation
type ExtensionPoint string

// The extension points (docs/explanation/architecture.md, 2.1); the names are the contract's.
const (
	PodMutationPoint        ExtensionPoint = "PodMutation"
	OffloadingPatchPoint    ExtensionPoint = "OffloadingPatch"
	AntiAffinityPresetPoint ExtensionPoint = "AntiAffinityPreset"
	MetadataFilterPoint     ExtensionPoint = "MetadataFilter"
	ResourceMutationPoint   ExtensionPoint = "ResourceMutation"
)

// FailurePolicyType tells what happens when a policy gives no valid answer.
//
// +kubebuilder:validation:Enum=Fail;Ignore;LastGood
type FailurePolicyType string

// The failure policies.
const (
	// FailurePolicyFail refuses the object.
	FailurePolicyFail FailurePolicyType = "Fail"
	// FailurePolicyIgnore goes on as if the policy had answered nothing.
	FailurePolicyIgnore FailurePolicyType = "Ignore"
	// FailurePolicyLastGood asks the version before, if that had given valid answers
	// since the component started; else it refuses the object.
	FailurePolicyLastGood FailurePolicyType = "LastGood"
)

// Mode tells what is done with a policy's answers.
//
// +kubebuilder:validation:Enum=Enforce;Shadow;Disabled
type Mode string

// The modes.
const (
	// ModeEnforce applies the answers.
	ModeEnforce Mode = "Enforce"
	// ModeShadow asks on real traffic, records what would change, and applies nothing.
	ModeShadow Mode = "Shadow"
	// ModeDisabled does not ask. For a policy named like an implicit default it
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
// +kubebuilder:validation:XValidation:rule="!has(self.parts) || has(self.digest)",message="the operator must set digest with parts: it tells a complete module from a mixture of two versions"
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
	// the module: its bytes are those of the ConfigMap and then those of each part, in this
	// order. Needs digest.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=15
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Parts []string `json:"parts,omitempty"`
	// Digest of the module's bytes as they were cut, before they are unpacked: "sha256:" and
	// what sha256sum prints of the file. Other bytes are not loaded, and what was loaded
	// before stays.
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`
}

// ModuleSource tells where the WebAssembly module comes from; exactly one is set.
//
// +kubebuilder:validation:XValidation:rule="has(self.builtIn) != has(self.configMap)",message="the operator must set exactly one of builtIn and configMap"
type ModuleSource struct {
	// BuiltIn names a module that Longshore carries: "default".
	// +kubebuilder:validation:Enum=default
	BuiltIn string `json:"builtIn,omitempty"`
	// ConfigMap that holds the module.
	ConfigMap *ConfigMapSource `json:"configMap,omitempty"`
}

// MatchCondition is a CEL expression that must be true for the policy to be asked.
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

// Match tells about which objects a policy is asked; what is left out matches all.
type Match struct {
	// NamespaceSelector over the labels of the local namespace.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ObjectSelector over the labels of the local object.
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`
	// VirtualNodes by name; at admission, where no node is chosen yet, a policy
	// with this list is not asked. What all virtual nodes of a provider share
	// (ConfigMaps, Secrets, Services) counts as the oldest one's.
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
// are MaxFuel and MaxMemoryBytes of the contract.
//
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || quantity(string(self.memory)).compareTo(quantity('32Mi')) <= 0",message="spec.limits.memory is more than the host's bound of 32Mi: the operator must lower it, or remove it"
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
	// Points at which it is asked; all that the module answers when left out.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Points []ExtensionPoint `json:"points,omitempty"`
	// Order among the policies of a point, lowest first. Needed when two policies
	// write the same path; those without come last, by name.
	Order *int32 `json:"order,omitempty"`
	// Match tells about which objects the policy is asked.
	Match *Match `json:"match,omitempty"`
	// Settings of the module, as it defines them.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Settings *runtime.RawExtension `json:"settings,omitempty"`
	// FailurePolicy tells what happens when the policy gives no valid answer: Fail refuses
	// the object, Ignore goes on without the policy, LastGood asks the version before it,
	// if that had answered since the component started. A policy that keeps failing is
	// quarantined: all of this happens without asking it, until a probe is answered. The
	// same happens, with LastGood as Fail, when the policy was in force and no version of it
	// can be used any more.
	// +kubebuilder:default="Fail"
	FailurePolicy FailurePolicyType `json:"failurePolicy,omitempty"`
	// Limits of a call.
	Limits *Limits `json:"limits,omitempty"`
	// Allow narrows what the module may read and write.
	Allow *Allow `json:"allow,omitempty"`
	// Mode tells what is done with the answers: Enforce applies them, Shadow records what
	// they would change, Disabled does not ask.
	// +kubebuilder:default="Enforce"
	Mode Mode `json:"mode,omitempty"`
}

// The condition types of an OffloadingPolicy.
const (
	// LoadedCondition: the module's current version is loaded.
	LoadedCondition = "Loaded"
	// ReadyCondition: the policy is part of the chains, possibly in an earlier version.
	ReadyCondition = "Ready"
	// DegradedCondition: something is wrong and who must act is said.
	DegradedCondition = "Degraded"
	// RolledOutCondition: every component decides by the current generation, with the same
	// module.
	RolledOutCondition = "RolledOut"
)

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

// ManifestSummary is what the loaded module says of itself.
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

// EnforcedPoint is an extension point at which a version was in force.
type EnforcedPoint struct {
	// Point at which it was asked.
	Point ExtensionPoint `json:"point"`
	// Moments at which it was; empty means all.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Moments []string `json:"moments,omitempty"`
}

// EnforcedVersion is a version of a policy that was in force: bound in mode Enforce.
type EnforcedVersion struct {
	// Generation of the policy.
	Generation int64 `json:"generation,omitempty"`
	// Module by its name.
	Module string `json:"module,omitempty"`
	// Digest of the module, "sha256:…".
	Digest string `json:"digest,omitempty"`
	// Points at which it was asked.
	// +listType=map
	// +listMapKey=point
	Points []EnforcedPoint `json:"points,omitempty"`
}

// Counters of a component since it loaded the version that it reports.
type Counters struct {
	// Calls of the policy, answers from the memo included.
	Calls int64 `json:"calls,omitempty"`
	// Changes are the calls whose answer changed the object; in mode Shadow, those whose
	// answer would have.
	Changes int64 `json:"changes,omitempty"`
	// Denials are the calls that refused the object; in mode Shadow, that would have.
	Denials int64 `json:"denials,omitempty"`
	// Errors are the calls without a valid answer.
	Errors int64 `json:"errors,omitempty"`
}

// Difference is what a policy in mode Shadow would have done to an object that was not
// done without it; no values.
type Difference struct {
	// Time at which it was found.
	// +optional
	Time metav1.Time `json:"time,omitempty,omitzero"`
	// Point at which the policy was asked.
	Point ExtensionPoint `json:"point"`
	// Kind of the object.
	Kind string `json:"kind,omitempty"`
	// Namespace of the local object.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object, or the beginning of the name that it will get.
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

// Observation is what one component runs.
type Observation struct {
	// Name of the component: "webhook/<pod>", "virtual-kubelet/<node>" … Each replica of the
	// webhook has an entry, as long as its pod is there.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Generation of the policy by whose settings, match and order it decides, and whose mode
	// it obeys: an earlier one while the latest is being loaded, or is refused, none when it
	// has none.
	Generation int64 `json:"generation,omitempty"`
	// Digest of the version that it runs, "sha256:…".
	Digest string `json:"digest,omitempty"`
	// Time at which it began to.
	// +optional
	Time metav1.Time `json:"time,omitempty,omitzero"`
	// Message says what is wrong, and who must act.
	Message string `json:"message,omitempty"`
	// Counters of the component. They are written once a minute at most.
	Counters *Counters `json:"counters,omitempty"`
	// Differences that a policy in mode Shadow would have made, the latest ones.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Differences []Difference `json:"differences,omitempty"`
}

// OffloadingPolicyStatus is the observed state of an OffloadingPolicy.
type OffloadingPolicyStatus struct {
	// ObservedGeneration is the last generation acted upon.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions Loaded, Ready, Degraded and RolledOut.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Digest of the module that is loaded, "sha256:…".
	Digest string `json:"digest,omitempty"`
	// ShortDigest is its beginning, as logs, errors and the decisions annotation have it.
	ShortDigest string `json:"shortDigest,omitempty"`
	// RunBy says how many of the components run the digest with the current generation, and
	// which.
	RunBy string `json:"runBy,omitempty"`
	// Points that the policy answers.
	// +listType=set
	Points []ExtensionPoint `json:"points,omitempty"`
	// PointList begins these, for a column.
	PointList string `json:"pointList,omitempty"`
	// Reads begins what the policy is given, for a column; Manifest has all of it.
	Reads string `json:"reads,omitempty"`
	// Writes begins what it may write, for a column; Manifest has all of it.
	Writes string `json:"writes,omitempty"`
	// Manifest of the module that is loaded.
	Manifest *ManifestSummary `json:"manifest,omitempty"`
	// Enforced is the version that was last in force. It stays while no version can be used,
	// and goes when the policy is given another mode than Enforce: a component that starts
	// while there is one, and cannot use the present version, does with the objects that it
	// concerns what failurePolicy says, instead of letting them pass.
	Enforced *EnforcedVersion `json:"enforced,omitempty"`
	// ObservedBy tells for each component what it runs. Each component applies its
	// own entry.
	// +listType=map
	// +listMapKey=name
	ObservedBy []Observation `json:"observedBy,omitempty"`
}

// OffloadingPolicy binds a sandboxed WebAssembly module to the extension points at
// which Longshore decides.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=op;opol,categories=longshore
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`
// +kubebuilder:printcolumn:name="Digest",type=string,JSONPath=`.status.shortDigest`
// +kubebuilder:printcolumn:name="Points",type=string,JSONPath=`.status.pointList`
// +kubebuilder:printcolumn:name="Reads",type=string,JSONPath=`.status.reads`
// +kubebuilder:printcolumn:name="Writes",type=string,JSONPath=`.status.writes`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Run by",type=string,JSONPath=`.status.runBy`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Degraded")].message`
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
