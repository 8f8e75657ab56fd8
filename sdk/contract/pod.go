package contract

// Metadata is the part of an object's metadata that a policy can read.
//
// Example:
//
//	{"name":"web-0","namespace":"shop","labels":{"app":"web"},"annotations":{"note":"n"}}
type Metadata struct {
	// Name of the object.
	Name string `json:"name,omitempty"`
	// Namespace of the object.
	Namespace string `json:"namespace,omitempty"`
	// Labels of the object.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the object.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Pod is a convenience view of a pod for authors: the fields that most policies
// ask for, in Kubernetes' own JSON names. It is never written back.
//
// Example:
//
//	{"metadata":{"name":"web-0","namespace":"shop"},"spec":{"containers":[{"name":"web","image":"web:1"}]}}
type Pod struct {
	// Metadata of the pod.
	Metadata Metadata `json:"metadata"`
	// Spec of the pod.
	Spec PodSpec `json:"spec"`
}

// PodSpec is the spec part of [Pod].
//
// Example:
//
//	{"nodeSelector":{"disk":"ssd"},"tolerations":[{"operator":"Exists"}],"containers":[{"name":"web"}]}
type PodSpec struct {
	// RuntimeClassName of the pod, empty for none.
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
	// NodeName is the node that the pod is bound to.
	NodeName string `json:"nodeName,omitempty"`
	// NodeSelector of the pod.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations of the pod.
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// Affinity of the pod.
	Affinity *Affinity `json:"affinity,omitempty"`
	// Containers of the pod.
	Containers []Container `json:"containers,omitempty"`
	// InitContainers of the pod, sidecars included.
	InitContainers []Container `json:"initContainers,omitempty"`
	// HostNetwork is set when the pod shares the network of its node.
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// HostPID is set when the pod sees the processes of its node.
	HostPID bool `json:"hostPID,omitempty"`
	// HostIPC is set when the pod shares the IPC namespace of its node.
	HostIPC bool `json:"hostIPC,omitempty"`
	// Volumes of the pod.
	Volumes []Volume `json:"volumes,omitempty"`
}

// Volume is the view of a volume.
//
// Example:
//
//	{"name":"logs","hostPath":{"path":"/var/log"}}
type Volume struct {
	// Name of the volume.
	Name string `json:"name"`
	// HostPath is set for a directory or file of the node, as Kubernetes writes it.
	HostPath RawMessage `json:"hostPath,omitempty"`
}

// Container is the view of a container.
//
// Example:
//
//	{"name":"web","image":"web:1","resources":{"requests":{"cpu":"100m"}}}
type Container struct {
	// Name of the container.
	Name string `json:"name"`
	// Image of the container.
	Image string `json:"image,omitempty"`
	// Resources are the requests and limits, as Kubernetes writes them.
	Resources RawMessage `json:"resources,omitempty"`
	// SecurityContext of the container.
	SecurityContext *SecurityContext `json:"securityContext,omitempty"`
}

// SecurityContext is the view of the security context of a container.
//
// Example:
//
//	{"privileged":true}
type SecurityContext struct {
	// Privileged is set when the container has nearly the rights of its node's processes.
	Privileged bool `json:"privileged,omitempty"`
}

// Toleration mirrors core/v1 Toleration.
//
// Example:
//
//	{"key":"gpu","operator":"Exists","effect":"NoExecute","tolerationSeconds":30}
type Toleration struct {
	// Key of the taint, empty for all.
	Key string `json:"key,omitempty"`
	// Operator is Exists or Equal, which is the default.
	Operator string `json:"operator,omitempty"`
	// Value of the taint, for Equal.
	Value string `json:"value,omitempty"`
	// Effect of the taint, empty for all.
	Effect string `json:"effect,omitempty"`
	// TolerationSeconds is how long a NoExecute taint is tolerated, in seconds; nil means forever.
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// Affinity mirrors core/v1 Affinity. What policies pass through without looking
// inside stays raw JSON.
//
// Example:
//
//	{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}}}
type Affinity struct {
	// NodeAffinity of the pod.
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`
	// PodAffinity of the pod, as Kubernetes writes it.
	PodAffinity RawMessage `json:"podAffinity,omitempty"`
	// PodAntiAffinity of the pod.
	PodAntiAffinity *PodAntiAffinity `json:"podAntiAffinity,omitempty"`
}

// PodAntiAffinity mirrors core/v1 PodAntiAffinity. Its terms stay raw, so that a
// policy that copies them keeps fields that it does not know.
//
// Example:
//
//	{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname"}]}
type PodAntiAffinity struct {
	// Required are PodAffinityTerms.
	Required []RawMessage `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// Preferred are WeightedPodAffinityTerms.
	Preferred []RawMessage `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeAffinity mirrors core/v1 NodeAffinity.
//
// Example:
//
//	{"requiredDuringSchedulingIgnoredDuringExecution":
//	 {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}}
type NodeAffinity struct {
	// Required is what a node must match.
	Required *NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	// Preferred are preferred scheduling terms, as Kubernetes writes them.
	Preferred []RawMessage `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector mirrors core/v1 NodeSelector.
//
// Example:
//
//	{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}
type NodeSelector struct {
	// NodeSelectorTerms are alternatives: a node must match one.
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// NodeSelectorTerm mirrors core/v1 NodeSelectorTerm.
//
// Example:
//
//	{"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]}],
//	 "matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}
type NodeSelectorTerm struct {
	// MatchExpressions on labels, all of which must hold.
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions,omitempty"`
	// MatchFields on fields, all of which must hold.
	MatchFields []NodeSelectorRequirement `json:"matchFields,omitempty"`
}

// NodeSelectorRequirement mirrors core/v1 NodeSelectorRequirement.
//
// Example:
//
//	{"key":"zone","operator":"In","values":["a","b"]}
type NodeSelectorRequirement struct {
	// Key of the label or field.
	Key string `json:"key"`
	// Operator is In, NotIn, Exists, DoesNotExist, Gt or Lt.
	Operator string `json:"operator"`
	// Values for the operators that take some.
	Values []string `json:"values,omitempty"`
}

// LabelSelector mirrors metav1 LabelSelector, as far as presets write it.
//
// Example:
//
//	{"matchLabels":{"app":"web"}}
type LabelSelector struct {
	// MatchLabels are the labels that a pod must have.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// PodAffinityTerm mirrors core/v1 PodAffinityTerm, as far as presets write it.
//
// Example:
//
//	{"labelSelector":{"matchLabels":{"app":"web"}},"topologyKey":"kubernetes.io/hostname"}
type PodAffinityTerm struct {
	// LabelSelector selects the pods that are meant.
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`
	// TopologyKey is the node label that defines the topology.
	TopologyKey string `json:"topologyKey"`
}

// WeightedPodAffinityTerm mirrors core/v1 WeightedPodAffinityTerm.
//
// Example:
//
//	{"weight":1,"podAffinityTerm":{"topologyKey":"kubernetes.io/hostname"}}
type WeightedPodAffinityTerm struct {
	// Weight from 1 to 100.
	Weight int32 `json:"weight"`
	// PodAffinityTerm that is preferred.
	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm"`
}
