package contract

// Metadata is the part of an object's metadata that a policy can read.
type Metadata struct {
	Name        string            `json:"name,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Pod is a convenience view of a pod for authors: the fields that most policies
// ask for, in Kubernetes' own JSON names. It is never written back.
type Pod struct {
	Metadata Metadata `json:"metadata"`
	Spec     PodSpec  `json:"spec"`
}

// PodSpec is the spec part of [Pod].
type PodSpec struct {
	RuntimeClassName string            `json:"runtimeClassName,omitempty"`
	NodeName         string            `json:"nodeName,omitempty"`
	NodeSelector     map[string]string `json:"nodeSelector,omitempty"`
	Tolerations      []Toleration      `json:"tolerations,omitempty"`
	Affinity         *Affinity         `json:"affinity,omitempty"`
	Containers       []Container       `json:"containers,omitempty"`
	InitContainers   []Container       `json:"initContainers,omitempty"`
}

// Container is the view of a container.
type Container struct {
	Name      string     `json:"name"`
	Image     string     `json:"image,omitempty"`
	Resources RawMessage `json:"resources,omitempty"`
}

// Toleration mirrors core/v1 Toleration.
type Toleration struct {
	Key               string `json:"key,omitempty"`
	Operator          string `json:"operator,omitempty"`
	Value             string `json:"value,omitempty"`
	Effect            string `json:"effect,omitempty"`
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// Affinity mirrors core/v1 Affinity. What policies pass through without looking
// inside stays raw JSON.
type Affinity struct {
	NodeAffinity    *NodeAffinity    `json:"nodeAffinity,omitempty"`
	PodAffinity     RawMessage       `json:"podAffinity,omitempty"`
	PodAntiAffinity *PodAntiAffinity `json:"podAntiAffinity,omitempty"`
}

// PodAntiAffinity mirrors core/v1 PodAntiAffinity. Its terms stay raw, so that a
// policy that copies them keeps fields that it does not know.
type PodAntiAffinity struct {
	Required  []RawMessage `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	Preferred []RawMessage `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeAffinity mirrors core/v1 NodeAffinity.
type NodeAffinity struct {
	Required  *NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`
	Preferred []RawMessage  `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector mirrors core/v1 NodeSelector.
type NodeSelector struct {
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// NodeSelectorTerm mirrors core/v1 NodeSelectorTerm.
type NodeSelectorTerm struct {
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions,omitempty"`
	MatchFields      []NodeSelectorRequirement `json:"matchFields,omitempty"`
}

// NodeSelectorRequirement mirrors core/v1 NodeSelectorRequirement.
type NodeSelectorRequirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// LabelSelector mirrors metav1 LabelSelector, as far as presets write it.
type LabelSelector struct {
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// PodAffinityTerm mirrors core/v1 PodAffinityTerm, as far as presets write it.
type PodAffinityTerm struct {
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`
	TopologyKey   string         `json:"topologyKey"`
}

// WeightedPodAffinityTerm mirrors core/v1 WeightedPodAffinityTerm.
type WeightedPodAffinityTerm struct {
	Weight          int32           `json:"weight"`
	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm"`
}
