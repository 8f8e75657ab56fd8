package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ShadowPodGVK is the kind of a ShadowPod, the controller of the remote pod.
var ShadowPodGVK = GroupVersion.WithKind("ShadowPod")

// Keys on offloaded pods and what goes with them (wire 7.2, 7.3).
const (
	// LocalPodLabel is "true" on a local pod that is offloaded.
	LocalPodLabel = "liqo.io/shadowPod"
	// RemoteUnavailableLabel is "true" on a local pod whose provider is unreachable.
	RemoteUnavailableLabel = "liqo.io/remote-unavailable"
	// ManagedByLabel on a remote object names the kind of its owner.
	ManagedByLabel = "liqo.io/managed-by"
	// ManagedByShadowPod is its value on pods.
	ManagedByShadowPod = "shadowpod"
	// ManagedByShadowEndpointSlice is its value on EndpointSlices.
	ManagedByShadowEndpointSlice = "shadowendpointslice"
	// OriginLabel on a reflected object is the consumer's ClusterID.
	OriginLabel = "offloading.liqo.io/origin"
	// DestinationLabel on a reflected object is the provider's ClusterID.
	DestinationLabel = "offloading.liqo.io/destination"
	// NodeNameLabel on a ShadowPod and its pod is the virtual node's name.
	NodeNameLabel = "offloading.liqo.io/nodename"
	// CreatorUserLabel on a ShadowPod is the escaped name of the user that created it,
	// when the provider enforces resources.
	CreatorUserLabel = "liqo.io/creator-user"
)

// Annotations with which a local pod asks for something (wire 7.3).
const (
	// AntiAffinityPresetAnnotation is "propagate", "soft" or "hard".
	AntiAffinityPresetAnnotation = "liqo.io/anti-affinity-preset"
	// AntiAffinityLabelsAnnotation lists label keys, separated by commas.
	AntiAffinityLabelsAnnotation = "liqo.io/anti-affinity-labels"
	// APIServerSupportAnnotation is "disabled" or "remote".
	APIServerSupportAnnotation = "liqo.io/api-server-support"
	// RemoteServiceAccountNameAnnotation names the ServiceAccount of mode remote.
	RemoteServiceAccountNameAnnotation = "liqo.io/remote-service-account-name"
	// RemoteRuntimeClassNameAnnotation names the RuntimeClass in the provider.
	RemoteRuntimeClassNameAnnotation = "liqo.io/remote-runtime-class-name"
)

// How a consumer of ours and a provider of ours agree on the end of a pod (ADR 42). The
// reference system knows neither key, and leaves both alone.
const (
	// DeletionGracePeriodAnnotation on a ShadowPod says that its pod is to end, and how
	// many seconds it is given, a decimal number. 0 asks for the shortest period that
	// lets the kubelet confirm the end: one second, or none if the pod's own is none. A
	// smaller number shortens the end of a pod that is ending already. It counts for the
	// pod of an earlier ShadowPod of this name as well, if both were made for the same pod
	// of the consumer (ADR 42).
	DeletionGracePeriodAnnotation = "longshore.dev/deletion-grace-period-seconds"
	// SupportsAnnotation on a remote pod lists, separated by commas, what the controller
	// that made it can do beyond the reference system.
	SupportsAnnotation = "longshore.dev/supports"
	// SupportsDeletionGracePeriod in that list: the controller follows
	// [DeletionGracePeriodAnnotation], and lets go of a ShadowPod that is deleted in the
	// foreground as soon as its pod is gone.
	SupportsDeletionGracePeriod = "deletion-grace-period"
)

// Reasons in the status of a local pod (wire 7.4).
const (
	// OffloadingBackOffReason: the pod cannot be offloaded for now.
	OffloadingBackOffReason = "OffloadingBackOff"
	// OffloadingAbortedReason: the pod will not be offloaded again.
	OffloadingAbortedReason = "OffloadingAborted"
	// RemotePodTerminatedReason: the remote pod vanished.
	RemotePodTerminatedReason = "RemotePodTerminated"
)

// FailedCreatePodReason in the status of a ShadowPod, and of events on it: the remote pod
// cannot be made (wire 3.7 knows the event).
const FailedCreatePodReason = "FailedCreatePod"

// Names with which fields are managed (wire 7.4).
const (
	// ReflectionFieldManager is that of the virtual kubelet.
	ReflectionFieldManager = "reflection.liqo.io"
	// ShadowPodFieldManager is that of the provider's ShadowPod controller.
	ShadowPodFieldManager = "shadow-pod"
)

// LiqoRuntimeClassName is the RuntimeClass with which a pod asks for a virtual node
// (wire 2.6).
const LiqoRuntimeClassName = "liqo"

// ShadowPodSpec is the desired state of a ShadowPod.
type ShadowPodSpec struct {
	// Pod is the spec of the remote pod.
	// +optional
	Pod corev1.PodSpec `json:"pod,omitempty"`
}

// ShadowPodStatus is the observed state of a ShadowPod.
type ShadowPodStatus struct {
	// Phase of the remote pod.
	// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Unknown
	// +kubebuilder:default="Unknown"
	Phase corev1.PodPhase `json:"phase"`

	// Reason is one CamelCase word why the remote pod cannot be made; empty while nothing
	// stands against it. The reference system has neither Reason nor Message: it does not
	// write them, and does not read them (ADR 45).
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message says the same in the words of whoever refuses the pod.
	// +optional
	Message string `json:"message,omitempty"`
}

// ShadowPod asks a provider to keep a pod of this spec.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=shp;shpod,categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ShadowPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ShadowPodSpec   `json:"spec,omitempty"`
	Status ShadowPodStatus `json:"status,omitempty,omitzero"`
}

// ShadowPodList is a list of ShadowPods.
//
// +kubebuilder:object:root=true
type ShadowPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ShadowPod `json:"items"`
}
