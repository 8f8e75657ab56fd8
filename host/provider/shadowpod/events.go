package shadowpod

// Event reasons and actions on the ShadowPod (wire 3.7), beside
// [offloadingv1beta1.FailedCreatePodReason]. The creation of a pod causes no event.
const (
	reasonFailedUpdatePod = "FailedUpdatePod"
	actionCreatePod       = "CreatePod"
	actionUpdatePod       = "UpdatePod"
)
