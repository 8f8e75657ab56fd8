package contract

// OffloadingPatchFacts are the facts of [OffloadingPatch].
//
// Example:
//
//	{"local":{"spec":{"runtimeClassName":"liqo"}},"patch":{"nodeSelector":{"pool":"gpu"}},
//	 "virtualNode":{"name":"milan","providerClusterID":"milan","consumerClusterID":"rome"}}
type OffloadingPatchFacts struct {
	// Object is the remote draft: the pod as it will run on the provider, so far.
	Object Pod `json:"object"`
	// Local is the local pod, unfiltered.
	Local Pod `json:"local"`
	// Patch is the VirtualNode's spec.offloadingPatch; absent when it has none.
	Patch *Patch `json:"patch,omitempty"`
	// VirtualNode that the pod is bound to.
	VirtualNode VirtualNode `json:"virtualNode"`
}

// Patch is the spec.offloadingPatch of a VirtualNode, as far as it concerns the
// pod spec; its key lists are facts of [MetadataFilter].
//
// Example:
//
//	{"nodeSelector":{"pool":"gpu"},"tolerations":[{"key":"gpu","operator":"Exists"}],"runtimeClassName":"gvisor"}
type Patch struct {
	// NodeSelector is added to that of the remote pod.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are added to those of the remote pod, as they are.
	Tolerations []RawMessage `json:"tolerations,omitempty"`
	// Affinity is what the remote pod demands of nodes in addition.
	Affinity *PatchAffinity `json:"affinity,omitempty"`
	// RuntimeClassName is the remote runtime class of pods that ask for none.
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
}

// PatchAffinity is the affinity part of a [Patch]: node affinity only.
//
// Example:
//
//	{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
//	 {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}}}
type PatchAffinity struct {
	// NodeAffinity that the remote pod gets in addition.
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`
}
