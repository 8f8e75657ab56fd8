package planner

// The reasons of a plan or a diagnosis, next to those of Kubernetes, of the reflection of pods
// (package pod) and of the status of an object.
const (
	// ReasonInvalid: the API server refuses the pod, which lacks a field.
	ReasonInvalid = "Invalid"
	// ReasonWebhookFailed: the pod webhook cannot decide.
	ReasonWebhookFailed = "WebhookFailed"
	// ReasonAdmissionDenied: a policy denies the pod at its admission.
	ReasonAdmissionDenied = "Denied"
	// ReasonSkipped: a policy keeps the pod in this cluster.
	ReasonSkipped = "Skipped"

	// ReasonNamespaceNotOffloaded: the namespace has no NamespaceOffloading.
	ReasonNamespaceNotOffloaded = "NamespaceNotOffloaded"
	// ReasonStrategyLocal: the NamespaceOffloading has the strategy Local.
	ReasonStrategyLocal = "StrategyLocal"
	// ReasonInvalidClusterSelector: the NamespaceOffloading selects no clusters that can be read.
	ReasonInvalidClusterSelector = "InvalidClusterSelector"
	// ReasonNotScheduled: the scheduler has not decided yet.
	ReasonNotScheduled = "NotScheduled"
	// ReasonNoVirtualNode: there is no virtual node.
	ReasonNoVirtualNode = "NoVirtualNode"
	// ReasonNotPlaced: the pod webhook did not add the toleration.
	ReasonNotPlaced = "NotPlaced"

	// ReasonProviderUnreachable: the API server of the provider does not answer.
	ReasonProviderUnreachable = "ProviderUnreachable"
	// ReasonNodeNotReady: the virtual node is not ready and names no reason.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonPodsNotReflected: the virtual node runs no pods.
	ReasonPodsNotReflected = "PodsNotReflected"
	// ReasonNotSent: the virtual kubelet has not sent the pod.
	ReasonNotSent = "NotSent"
	// ReasonVolumeLost: the provider does not have the volume of a claim any more.
	ReasonVolumeLost = "VolumeLost"
	// ReasonNotCreated: the provider has not created the pod.
	ReasonNotCreated = "NotCreated"

	// ReasonMissingObject: an object that the pod needs does not exist.
	ReasonMissingObject = "MissingObject"
	// ReasonObjectNotReflected: an object that the pod needs is not in the provider.
	ReasonObjectNotReflected = "ObjectNotReflected"
	// ReasonDeleting: the pod is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonError: a container has ended and names no reason.
	ReasonError = "Error"
	// ReasonFailed: the pod has failed and names no reason.
	ReasonFailed = "Failed"
	// ReasonNotStarted: the provider's kubelet has not reported any container.
	ReasonNotStarted = "NotStarted"
	// ReasonContainersNotReady: a container runs and is not ready.
	ReasonContainersNotReady = "ContainersNotReady"
	// ReasonReadinessGate: the condition of a readiness gate is not true.
	ReasonReadinessGate = "ReadinessGateNotReady"
	// ReasonNotReported: the remote pod is ready, and the local pod does not say so.
	ReasonNotReported = "NotReported"
	// ReasonNotReady: the pod is not ready, and nothing names a cause.
	ReasonNotReady = "NotReady"
)
