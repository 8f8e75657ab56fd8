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
	// NotReflected are the key lists of the VirtualNode's offloadingPatch, or of all when they share the object.
	NotReflected NotReflected `json:"notReflected"`
	// VirtualNode of the pod, or the provider's oldest for what its virtual nodes share.
	VirtualNode *VirtualNode `json:"virtualNode,omitempty"`
}

// ObjectMetadata is the view of an object of any kind.
//
// Example:
//
//	{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"}}}
type ObjectMetadata struct {
	// APIVersion and Kind are those of the local object.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the object.
	Kind string `json:"kind,omitempty"`
	// Metadata of the object: name, namespace, labels, annotations.
	Metadata Metadata `json:"metadata"`
}

// NotReflected lists the keys that the operator excludes, exact match.
//
// Example:
//
//	{"labels":["example.com/team"],"annotations":["example.com/note"]}
type NotReflected struct {
	// Labels are keys of labels.
	Labels []string `json:"labels,omitempty"`
	// Annotations are keys of annotations.
	Annotations []string `json:"annotations,omitempty"`
}
