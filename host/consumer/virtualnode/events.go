package virtualnode

// Event reasons and actions on the VirtualNode (reference 5).
const (
	reasonVkCreated = "VkCreated"
	reasonVkDeleted = "VkDeleted"
	reasonNotReady  = "VirtualKubeletNotReady"
	reasonNameTaken = "NameTaken"
	// reasonMapKept is the reason of the event that a NamespaceMap outlives its last VirtualNode.
	reasonMapKept = "NamespaceMapKept"
	// reasonShadowPodsKept is the reason of the event that ShadowPods could not be deleted.
	reasonShadowPodsKept = "ShadowPodsKept"
	// reasonDrainForbidden: a PodDisruptionBudget keeps a pod on a Node that leaves.
	reasonDrainForbidden = "DrainForbidden"
	actionRun            = "RunVirtualKubelet"
	actionStop           = "StopVirtualKubelet"
	actionDrain          = "DrainVirtualNode"
)
