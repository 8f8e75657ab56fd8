package contract

// OffloadingPatchFacts are the facts of [OffloadingPatch].
type OffloadingPatchFacts struct {
	// Object is the remote draft: the pod as it will run on the provider, so far.
	Object Pod `json:"object"`
	// Local is the local pod, unfiltered.
	Local Pod `json:"local"`
	// Patch is the VirtualNode's spec.offloadingPatch; absent when it has none.
	Patch       *Patch      `json:"patch,omitempty"`
	VirtualNode VirtualNode `json:"virtualNode"`
}

// Patch is the spec.offloadingPatch of a VirtualNode, as far as it concerns the
// pod spec; its key lists are facts of [MetadataFilter].
type Patch struct {
	NodeSelector     map[string]string `json:"nodeSelector,omitempty"`
	Tolerations      []RawMessage      `json:"tolerations,omitempty"`
	Affinity         *PatchAffinity    `json:"affinity,omitempty"`
	RuntimeClassName string            `json:"runtimeClassName,omitempty"`
}

// PatchAffinity is the affinity part of a [Patch]: node affinity only.
type PatchAffinity struct {
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`
}
