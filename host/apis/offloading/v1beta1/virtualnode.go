package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// Keys on virtual nodes: the VirtualNode, its Node and its virtual kubelet.
const (
	// NodeTypeLabel and NodeTypeVirtual mark the Node of a virtual node.
	NodeTypeLabel   = "liqo.io/type"
	NodeTypeVirtual = "virtual-node"
	// KubeletTypeLabel and KubeletTypeVirtual mark the Node for autoscalers, which ignore it.
	KubeletTypeLabel   = "type"
	KubeletTypeVirtual = "virtual-kubelet"
	// StorageAvailableLabel on the Node is "true" when the provider offers storage.
	StorageAvailableLabel = "storage.liqo.io/available"
	// VirtualNodeLabel on a virtual kubelet's Deployment and pods is the name of its VirtualNode.
	VirtualNodeLabel = "liqo.io/virtual-node"
	// ComponentLabel and ComponentVirtualKubelet mark the Deployment and pods of a virtual kubelet.
	ComponentLabel          = "offloading.liqo.io/component"
	ComponentVirtualKubelet = "virtual-kubelet"
	// OffloadingPatchHashAnnotation on a virtual kubelet's Deployment is the hex SHA-256 of
	// the patch's JSON. In the reference it is on the pod template, so that a changed patch
	// restarts the virtual kubelet. Here the virtual kubelet applies it without a restart.
	OffloadingPatchHashAnnotation = "liqo.io/offloading-patch-hash"
	// ImageAnnotation on a VirtualNode is the image that spec.template has from its VkOptionsTemplate.
	// While the template has this image, it follows the VkOptionsTemplate.
	ImageAnnotation = "longshore.dev/virtual-kubelet-image"
	// VirtualNodeFinalizer is kept until Node and Deployment are deleted.
	VirtualNodeFinalizer = "virtualnode-controller.liqo.io/finalizer"
)

// The taint of a virtual node: key, value, effect NoExecute.
const (
	VirtualNodeTaintKey   = "virtual-node.liqo.io/not-allowed"
	VirtualNodeTaintValue = "true"
)

// DeploymentTemplate is the Deployment of a virtual kubelet.
type DeploymentTemplate struct {
	// Metadata of the Deployment.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the Deployment.
	// +optional
	Spec appsv1.DeploymentSpec `json:"spec,omitempty"`
}

// Affinity is the affinity of an OffloadingPatch.
type Affinity struct {
	// NodeAffinity is merged into that of the remote pod.
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
}

// OffloadingPatch is applied to objects that are offloaded through a virtual node.
type OffloadingPatch struct {
	// AnnotationsNotReflected are keys of annotations that are not reflected, by exact match.
	AnnotationsNotReflected []string `json:"annotationsNotReflected,omitempty"`
	// LabelsNotReflected are keys of labels that are not reflected, by exact match.
	LabelsNotReflected []string `json:"labelsNotReflected,omitempty"`
	// NodeSelector keys are set on the remote pod.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are added to the remote pod.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Affinity is merged into that of the remote pod.
	Affinity *Affinity `json:"affinity,omitempty"`
	// RuntimeClassName of the remote pod, unless the pod or its annotation has one.
	RuntimeClassName *string `json:"runtimeClassName,omitempty"`
}

// VirtualNodeSpec is the desired state of a VirtualNode. The provider and the credential for
// it are immutable: namespaces and pods of the previous provider would be lost.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterID) || has(self.clusterID) && self.clusterID == oldSelf.clusterID",message="spec.clusterID is immutable: delete the VirtualNode and create another one for the other cluster"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.kubeconfigSecretRef) || !has(oldSelf.kubeconfigSecretRef.name) || size(oldSelf.kubeconfigSecretRef.name) == 0 || has(self.kubeconfigSecretRef) && has(self.kubeconfigSecretRef.name) && self.kubeconfigSecretRef.name == oldSelf.kubeconfigSecretRef.name",message="spec.kubeconfigSecretRef.name is immutable: change the Secret, or delete the VirtualNode and create another one"
type VirtualNodeSpec struct {
	// ClusterID of the provider.
	ClusterID liqocorev1beta1.ClusterID `json:"clusterID,omitempty"`
	// Template of the virtual kubelet's Deployment. It is set at creation.
	Template *DeploymentTemplate `json:"template,omitempty"`
	// OffloadingPatch applied to objects that are offloaded through this node.
	OffloadingPatch *OffloadingPatch `json:"offloadingPatch,omitempty"`
	// CreateNode determines whether a Node is created. Without a Node, only other resources are
	// reflected.
	CreateNode *bool `json:"createNode,omitempty"`
	// DisableNetworkCheck makes the Node's readiness independent of the network.
	DisableNetworkCheck *bool `json:"disableNetworkCheck,omitempty"`
	// KubeconfigSecretRef refers to the Secret with the kubeconfig of the provider, in the same
	// namespace, key "kubeconfig".
	KubeconfigSecretRef *corev1.LocalObjectReference `json:"kubeconfigSecretRef,omitempty"`
	// Images of the provider, copied to the Node.
	Images []corev1.ContainerImage `json:"images,omitempty"`
	// ResourceQuota is the Node's capacity. Only hard is used.
	// +optional
	ResourceQuota corev1.ResourceQuotaSpec `json:"resourceQuota,omitempty"`
	// Labels of the Node.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the Node.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Taints of the Node, in addition to that of every virtual node.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// StorageClasses that the provider offers.
	StorageClasses []authv1beta1.StorageType `json:"storageClasses,omitempty"`
	// IngressClasses that the provider offers.
	IngressClasses []authv1beta1.IngressType `json:"ingressClasses,omitempty"`
	// LoadBalancerClasses that the provider offers.
	LoadBalancerClasses []authv1beta1.LoadBalancerType `json:"loadBalancerClasses,omitempty"`
	// VkOptionsTemplateRef refers to a template. Only namespace and name are used.
	VkOptionsTemplateRef *corev1.ObjectReference `json:"vkOptionsTemplateRef,omitempty"`
}

// VirtualNodeConditionType is the type of a condition of a virtual node.
//
// +kubebuilder:validation:Enum=VirtualKubelet;Node
type VirtualNodeConditionType string

// The condition types of a virtual node.
const (
	VirtualKubeletConditionType VirtualNodeConditionType = "VirtualKubelet"
	NodeConditionType           VirtualNodeConditionType = "Node"
)

// VirtualNodeConditionStatusType is the status of a condition.
//
// +kubebuilder:validation:Enum=None;Running;Creating;Draining;Deleting
type VirtualNodeConditionStatusType string

// The statuses of a condition.
const (
	NoneConditionStatusType     VirtualNodeConditionStatusType = "None"
	RunningConditionStatusType  VirtualNodeConditionStatusType = "Running"
	CreatingConditionStatusType VirtualNodeConditionStatusType = "Creating"
	DrainingConditionStatusType VirtualNodeConditionStatusType = "Draining"
	DeletingConditionStatusType VirtualNodeConditionStatusType = "Deleting"
)

// VirtualNodeCondition is a condition of a virtual node.
type VirtualNodeCondition struct {
	// Type of the condition.
	Type VirtualNodeConditionType `json:"type"`
	// Status of the condition.
	// +kubebuilder:default="None"
	Status VirtualNodeConditionStatusType `json:"status"`
	// LastTransitionTime is when the status changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty,omitzero"`
	// Reason for the last transition, in CamelCase.
	Reason string `json:"reason,omitempty"`
	// Message is human-readable.
	Message string `json:"message,omitempty"`
}

// VirtualNodeStatus is the observed state of a VirtualNode.
type VirtualNodeStatus struct {
	// Conditions of the virtual node.
	Conditions []VirtualNodeCondition `json:"conditions,omitempty"`
}

// VirtualNode is a share of a provider that appears as a node of this cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vn;vnode;virno;vno,categories=liqo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="ClusterID",type=string,JSONPath=`.spec.clusterID`
// +kubebuilder:printcolumn:name="Create Node",type=boolean,JSONPath=`.spec.createNode`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Node",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Node")].status`
// +kubebuilder:printcolumn:name="VirtualKubelet",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="VirtualKubelet")].status`
type VirtualNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VirtualNodeSpec   `json:"spec,omitempty"`
	Status VirtualNodeStatus `json:"status,omitempty,omitzero"`
}

// VirtualNodeList is a list of VirtualNodes.
//
// +kubebuilder:object:root=true
type VirtualNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VirtualNode `json:"items"`
}
