package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ShadowPodGVK is the kind of a ShadowPod, the controller of the remote pod.
var ShadowPodGVK = GroupVersion.WithKind("ShadowPod")

// Labels of offloaded pods and related objects.
const (
	// LocalPodLabel is "true" on a local pod that is offloaded.
	LocalPodLabel = "liqo.io/shadowPod"
	// RemoteUnavailableLabel is "true" on a local pod whose provider is unreachable.
	RemoteUnavailableLabel = "liqo.io/remote-unavailable"
	// ManagedByLabel on a remote object is the kind of its owner.
	ManagedByLabel = "liqo.io/managed-by"
	// ManagedByShadowPod is the value of ManagedByLabel on pods.
	ManagedByShadowPod = "shadowpod"
	// ManagedByShadowEndpointSlice is the value of ManagedByLabel on EndpointSlices.
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

// Annotations of local pods.
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

// Reasons in the status of a local pod.
const (
	// OffloadingBackOffReason means that the pod cannot be offloaded at present.
	OffloadingBackOffReason = "OffloadingBackOff"
	// OffloadingAbortedReason means that the pod will not be offloaded again.
	OffloadingAbortedReason = "OffloadingAborted"
	// RemotePodTerminatedReason means that the remote pod was deleted.
	RemotePodTerminatedReason = "RemotePodTerminated"
)

// FailedCreatePodReason is the reason in the status of a ShadowPod, and of events on it, when
// the pod cannot be created.
const FailedCreatePodReason = "FailedCreatePod"

// Field managers.
const (
	// ReflectionFieldManager is the field manager of virtual kubelets.
	ReflectionFieldManager = "reflection.liqo.io"
	// ShadowPodFieldManager is the field manager of the ShadowPod controller.
	ShadowPodFieldManager = "shadow-pod"
)

// LiqoRuntimeClassName is the RuntimeClass of pods that request a virtual node.
const LiqoRuntimeClassName = "liqo"

// ShadowPodSpec is the desired state of a ShadowPod.
type ShadowPodSpec struct {
	// Pod is the spec of the remote pod.
	// +optional
	Pod corev1.PodSpec `json:"pod,omitempty"`
}

// ShadowPodStatus is the observed state of a ShadowPod.
type ShadowPodStatus struct {
	// Phase of the remote pod. Longshore writes terminal phases only: consumers read no other.
	// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Unknown
	// +kubebuilder:default="Unknown"
	Phase corev1.PodPhase `json:"phase"`

	// Requests are what the pod requests in this cluster where that is more than its spec says: overhead of
	// its RuntimeClass, defaults of LimitRanges, and containers that webhooks of the provider added. They
	// count against the Quota. The reference system does not have them.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`

	// Reason is a CamelCase reason why the pod cannot be created; empty otherwise. The reference
	// system neither writes nor reads Reason and Message.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message is the error with which the provider refuses the pod.
	// +optional
	Message string `json:"message,omitempty"`
}

// ShadowPod requests a pod with this spec from a provider.
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
