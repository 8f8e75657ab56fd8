package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultVkOptionsTemplateName is the template used by a VirtualNode that names none
// (wire 7.4).
const DefaultVkOptionsTemplateName = "virtual-kubelet-default"

// ReflectionType tells whether objects are reflected unless, or only if, they say so.
// The schema accepts any string, as in the reference; other values fail when the
// virtual kubelet starts.
type ReflectionType string

// The reflection types.
const (
	// DenyList reflects all but those annotated otherwise.
	DenyList ReflectionType = "DenyList"
	// AllowList reflects only those annotated so.
	AllowList ReflectionType = "AllowList"
	// CustomLiqo is reserved to resources that have a rule of their own.
	CustomLiqo ReflectionType = "CustomLiqo"
)

// Annotations with which an object asks for, or refuses, its reflection; "false"
// negates (wire 7.3).
const (
	SkipReflectionAnnotation  = "liqo.io/skip-reflection"
	AllowReflectionAnnotation = "liqo.io/allow-reflection"
)

// ReflectorConfig configures the reflection of one resource.
type ReflectorConfig struct {
	// NumWorkers that reflect concurrently; 0 switches the reflection off.
	NumWorkers uint `json:"workers"`
	// Type of the reflection.
	Type ReflectionType `json:"type,omitempty"`
}

// VkOptionsTemplateSpec holds what VirtualNodes take when they are created.
type VkOptionsTemplateSpec struct {
	// CreateNode is the default of VirtualNode.spec.createNode.
	CreateNode bool `json:"createNode"`
	// DisableNetworkCheck is the default of VirtualNode.spec.disableNetworkCheck.
	DisableNetworkCheck bool `json:"disableNetworkCheck"`
	// ContainerImage of the virtual kubelet.
	ContainerImage string `json:"containerImage"`
	// MetricsEnabled tells whether metrics are served.
	MetricsEnabled bool `json:"metricsEnabled"`
	// MetricsAddress to serve them at, host:port.
	MetricsAddress string `json:"metricsAddress,omitempty"`
	// LabelsNotReflected are added to the offloadingPatch of new VirtualNodes.
	LabelsNotReflected []string `json:"labelsNotReflected,omitempty"`
	// AnnotationsNotReflected are added to the offloadingPatch of new VirtualNodes.
	AnnotationsNotReflected []string `json:"annotationsNotReflected,omitempty"`
	// ReflectorsConfig by resource: pod, service, endpointslice, ingress, configmap,
	// secret, serviceaccount, persistentvolumeclaim, event.
	ReflectorsConfig map[string]ReflectorConfig `json:"reflectorsConfig,omitempty"`
	// Resources of the virtual kubelet's container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// ExtraArgs are appended to the virtual kubelet's arguments as they are.
	ExtraArgs []string `json:"extraArgs,omitempty"`
	// ExtraAnnotations of the Deployment and its pods.
	ExtraAnnotations map[string]string `json:"extraAnnotations,omitempty"`
	// ExtraLabels of the Deployment and its pods.
	ExtraLabels map[string]string `json:"extraLabels,omitempty"`
	// NodeExtraAnnotations of the Node.
	NodeExtraAnnotations map[string]string `json:"nodeExtraAnnotations,omitempty"`
	// NodeExtraLabels of the Node.
	NodeExtraLabels map[string]string `json:"nodeExtraLabels,omitempty"`
	// Replicas of the Deployment.
	Replicas *int32 `json:"replicas,omitempty"`
	// ImagePullSecrets of the virtual kubelet's pod.
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// PullPolicy of the virtual kubelet's image; IfNotPresent when empty.
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
	// Tolerations of the virtual kubelet's pod.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// VkOptionsTemplate holds the options of the virtual kubelets of new VirtualNodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vkot;vkopt,categories=liqo
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VkOptionsTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec VkOptionsTemplateSpec `json:"spec,omitempty"`
}

// VkOptionsTemplateList is a list of VkOptionsTemplates.
//
// +kubebuilder:object:root=true
type VkOptionsTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VkOptionsTemplate `json:"items"`
}
