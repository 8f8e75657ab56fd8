package shadowpod

// Event reasons and actions on the ShadowPod (wire 3.7), beside
// [offloadingv1beta1.FailedCreatePodReason]. A created pod is no event: the pod itself
// says it.
const (
	reasonFailedUpdatePod = "FailedUpdatePod"
	reasonFailedDeletePod = "FailedDeletePod"
	actionCreatePod       = "CreatePod"
	actionUpdatePod       = "UpdatePod"
	actionDeletePod       = "DeletePod"
)
