package virtualnode

// Event reasons and actions on the VirtualNode (reference 5).
const (
	reasonVkCreated = "VkCreated"
	reasonVkDeleted = "VkDeleted"
	reasonNotReady  = "VirtualKubeletNotReady"
	reasonNameTaken = "NameTaken"
	actionRun       = "RunVirtualKubelet"
	actionStop      = "StopVirtualKubelet"
)
