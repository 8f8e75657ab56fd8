package contract

// MetadataFilterFacts are the facts of [MetadataFilter].
//
// Example:
//
//	{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","labels":{"team":"a"}}},
//	 "notReflected":{"labels":["internal"]},"virtualNode":{"name":"milan","providerClusterID":"milan","consumerClusterID":"rome"}}
type MetadataFilterFacts struct {
	// Object is the object being reflected: kind and metadata only.
	Object ObjectMetadata `json:"object"`
	// NotReflected are the key lists of the VirtualNode's offloadingPatch.
	NotReflected NotReflected `json:"notReflected"`
	VirtualNode  *VirtualNode `json:"virtualNode,omitempty"`
}

// ObjectMetadata is the view of an object of any kind.
type ObjectMetadata struct {
	APIVersion string   `json:"apiVersion,omitempty"`
	Kind       string   `json:"kind,omitempty"`
	Metadata   Metadata `json:"metadata"`
}

// NotReflected lists the keys that the operator excludes, exact match.
type NotReflected struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
}
