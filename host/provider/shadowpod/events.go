package shadowpod

// Event reasons and actions on the ShadowPod (reference 3.7). A created pod is no
// event: the pod itself says it.
const (
	reasonFailedCreatePod = "FailedCreatePod"
	reasonFailedUpdatePod = "FailedUpdatePod"
	reasonFailedDeletePod = "FailedDeletePod"
	actionCreatePod       = "CreatePod"
	actionUpdatePod       = "UpdatePod"
	actionDeletePod       = "DeletePod"
)
