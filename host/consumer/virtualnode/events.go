package virtualnode

// Event reasons and actions on the VirtualNode (reference 5).
const (
	reasonVkCreated = "VkCreated"
	reasonVkDeleted = "VkDeleted"
	reasonNotReady  = "VirtualKubeletNotReady"
	reasonNameTaken = "NameTaken"
	// reasonDrainForbidden: a PodDisruptionBudget keeps a pod on a Node that leaves.
	reasonDrainForbidden = "DrainForbidden"
	actionRun            = "RunVirtualKubelet"
	actionStop           = "StopVirtualKubelet"
	actionDrain          = "DrainVirtualNode"
)
