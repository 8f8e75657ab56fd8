package virtualnode

// Event reasons and actions on the VirtualNode.
const (
	reasonVkCreated = "VkCreated"
	reasonVkDeleted = "VkDeleted"
	reasonNotReady  = "VirtualKubeletNotReady"
	reasonNameTaken = "NameTaken"
	// reasonImageChanged means that the VkOptionsTemplate has another image.
	reasonImageChanged = "ImageChanged"
	// reasonMapKept means that the NamespaceMap is kept although its last VirtualNode is deleted.
	reasonMapKept = "NamespaceMapKept"
	// reasonShadowPodsKept means that ShadowPods could not be deleted.
	reasonShadowPodsKept = "ShadowPodsKept"
	// reasonDrainForbidden means that a PodDisruptionBudget prevents the eviction of a pod.
	reasonDrainForbidden = "DrainForbidden"
	actionRun            = "RunVirtualKubelet"
	actionStop           = "StopVirtualKubelet"
	actionDrain          = "DrainVirtualNode"
)
