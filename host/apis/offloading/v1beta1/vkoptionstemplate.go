package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultVkOptionsTemplateName is the template of VirtualNodes without a reference to one.
const DefaultVkOptionsTemplateName = "virtual-kubelet-default"

// ReflectionType determines whether objects are reflected by default. The schema accepts any string,
// as in the reference; the virtual kubelet does not start with an unknown value.
type ReflectionType string

// The reflection types.
const (
	// DenyList reflects all objects without SkipReflectionAnnotation.
	DenyList ReflectionType = "DenyList"
	// AllowList reflects the objects with AllowReflectionAnnotation.
	AllowList ReflectionType = "AllowList"
	// CustomLiqo is reserved for resources with their own rule.
	CustomLiqo ReflectionType = "CustomLiqo"
)

// Annotations that enable or disable the reflection of an object. The value "false" negates them.
const (
	SkipReflectionAnnotation  = "liqo.io/skip-reflection"
	AllowReflectionAnnotation = "liqo.io/allow-reflection"
)

// ReflectorConfig configures the reflection of one resource.
type ReflectorConfig struct {
	// NumWorkers is the number of concurrent workers. 0 disables the reflection.
	// +kubebuilder:validation:Minimum=0
	NumWorkers uint `json:"workers"`
	// Type of the reflection.
	Type ReflectionType `json:"type,omitempty"`
}

// VkOptionsTemplateSpec has the defaults of new VirtualNodes.
type VkOptionsTemplateSpec struct {
	// CreateNode is the default of VirtualNode.spec.createNode.
	CreateNode bool `json:"createNode"`
	// DisableNetworkCheck is the default of VirtualNode.spec.disableNetworkCheck.
	DisableNetworkCheck bool `json:"disableNetworkCheck"`
	// ContainerImage of the virtual kubelet.
	ContainerImage string `json:"containerImage"`
	// MetricsEnabled enables metrics.
	MetricsEnabled bool `json:"metricsEnabled"`
	// MetricsAddress is the address of the metrics endpoint, host:port.
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
	// ExtraArgs are appended to the virtual kubelet's arguments.
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
	// PullPolicy of the virtual kubelet's image. The default is IfNotPresent.
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
	// Tolerations of the virtual kubelet's pod.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// VkOptionsTemplate has the options of the virtual kubelets of new VirtualNodes.
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
