package shadowpod

// Event reasons and actions on the ShadowPod, beside
// [offloadingv1beta1.FailedCreatePodReason]. The creation of a pod causes no event.
const (
	reasonFailedUpdatePod = "FailedUpdatePod"
	actionCreatePod       = "CreatePod"
	actionUpdatePod       = "UpdatePod"
)
