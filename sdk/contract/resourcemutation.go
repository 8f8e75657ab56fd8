package contract

// ResourceMutationFacts are the facts of [ResourceMutation].
//
// Object is what is about to be sent to the provider, after the metadata filter and,
// for a pod, after all other points. A policy may write its labels, its annotations
// and, depending on the kind, more: data and binaryData of a ConfigMap, data of a
// Secret, most of the spec of a Service, the spec of a pod.
//
// Example:
//
//	{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"shop-rome"},"data":{"region":"home"}},
//	 "local":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"}}},
//	 "virtualNode":{"name":"milan","providerClusterID":"milan","consumerClusterID":"rome"}}
type ResourceMutationFacts struct {
	// Object is the remote object as it would be sent. Read of it what you need: a module
	// that reads /object/data is given the data of every Secret that its binding matches.
	Object Resource `json:"object"`
	// Local is the object that is reflected: kind and metadata only.
	Local ObjectMetadata `json:"local"`
	// VirtualNode of the pod, or the provider's oldest for what its virtual nodes share.
	VirtualNode VirtualNode `json:"virtualNode"`
}

// Resource is the view of a reflected object of any kind. Fields that the kind does not
// have are absent.
//
// Example:
//
//	{"apiVersion":"v1","kind":"Secret","metadata":{"name":"token","namespace":"shop-rome"},
//	 "type":"Opaque","data":{"password":"aHVudGVyMg=="}}
type Resource struct {
	// APIVersion and Kind of the object; a pod is a Pod, whatever it travels as.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the object.
	Kind string `json:"kind,omitempty"`
	// Metadata of the remote object: name, namespace, labels, annotations.
	Metadata Metadata `json:"metadata"`
	// Type of a Secret.
	Type string `json:"type,omitempty"`
	// Immutable is set when the provider does not allow changes of data.
	Immutable bool `json:"immutable,omitempty"`
	// Data of a ConfigMap, or of a Secret, whose values are base64.
	Data map[string]string `json:"data,omitempty"`
	// BinaryData of a ConfigMap, base64.
	BinaryData map[string]string `json:"binaryData,omitempty"`
	// Spec of a Service or a pod, as it is.
	Spec RawMessage `json:"spec,omitempty"`
}

// Skip is the reason why a policy of [ResourceMutation] leaves an object at home.
//
// Example:
//
//	{"reason":"HomeOnly","message":"ConfigMaps of the home site are used there only"}
type Skip struct {
	// Reason is a CamelCase word for machines.
	Reason string `json:"reason"`
	// Message is a sentence for the person who created the object.
	Message string `json:"message"`
}
