package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ObjectTemplate is the metadata and spec of an object that a fabric creates. Longshore does not
// read it.
type ObjectTemplate struct {
	// Metadata of the object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec of the object.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec *runtime.RawExtension `json:"spec,omitempty"`
}

// GatewayMetrics is how the metrics of a gateway are served.
type GatewayMetrics struct {
	// Enabled serves them.
	Enabled bool `json:"enabled"`
	// Service of the metrics.
	// +optional
	Service *ObjectTemplate `json:"service,omitempty"`
	// ServiceMonitor of the metrics.
	// +optional
	ServiceMonitor *ObjectTemplate `json:"serviceMonitor,omitempty"`
}

// WgGatewayServerSpec is the desired state of a WgGatewayServer.
type WgGatewayServerSpec struct {
	// Service that leads to the gateway.
	Service ObjectTemplate `json:"service"`
	// Deployment of the gateway.
	Deployment ObjectTemplate `json:"deployment"`
	// Metrics of the gateway.
	// +optional
	Metrics *GatewayMetrics `json:"metrics,omitempty"`
	// SecretRef refers to the keys of the gateway.
	SecretRef corev1.LocalObjectReference `json:"secretRef,omitempty"`
}

// WgGatewayServerStatus is the observed state of a WgGatewayServer.
type WgGatewayServerStatus struct {
	// SecretRef refers to the keys of the gateway.
	SecretRef *corev1.ObjectReference `json:"secretRef,omitempty"`
	// Endpoint is where clients reach the gateway.
	Endpoint *EndpointStatus `json:"endpoint,omitempty"`
	// InternalEndpoint is where the fabric reaches the gateway.
	InternalEndpoint *InternalGatewayEndpoint `json:"internalEndpoint,omitempty"`
}

// WgGatewayServer is a WireGuard gateway that listens.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=wgs;wggs
// +kubebuilder:subresource:status
type WgGatewayServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WgGatewayServerSpec   `json:"spec,omitempty"`
	Status WgGatewayServerStatus `json:"status,omitempty,omitzero"`
}

// WgGatewayServerList is a list of WgGatewayServers.
//
// +kubebuilder:object:root=true
type WgGatewayServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WgGatewayServer `json:"items"`
}

// WgGatewayClientSpec is the desired state of a WgGatewayClient.
type WgGatewayClientSpec struct {
	// Deployment of the gateway.
	Deployment ObjectTemplate `json:"deployment"`
	// Metrics of the gateway.
	// +optional
	Metrics *GatewayMetrics `json:"metrics,omitempty"`
	// SecretRef refers to the keys of the gateway.
	SecretRef corev1.LocalObjectReference `json:"secretRef,omitempty"`
}

// WgGatewayClientStatus is the observed state of a WgGatewayClient.
type WgGatewayClientStatus struct {
	// SecretRef refers to the keys of the gateway.
	SecretRef *corev1.ObjectReference `json:"secretRef,omitempty"`
	// InternalEndpoint is where the fabric reaches the gateway.
	InternalEndpoint *InternalGatewayEndpoint `json:"internalEndpoint,omitempty"`
}

// WgGatewayClient is a WireGuard gateway that connects.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=wgc;wggc
// +kubebuilder:subresource:status
type WgGatewayClient struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WgGatewayClientSpec   `json:"spec,omitempty"`
	Status WgGatewayClientStatus `json:"status,omitempty,omitzero"`
}

// WgGatewayClientList is a list of WgGatewayClients.
//
// +kubebuilder:object:root=true
type WgGatewayClientList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WgGatewayClient `json:"items"`
}

// GatewayTemplateSpec is the object that is made of each gateway.
type GatewayTemplateSpec struct {
	// ObjectKind is the kind of the object.
	ObjectKind metav1.TypeMeta `json:"objectKind,omitempty"`
	// Template is the object, with Go templates in its strings.
	// +optional
	Template *ObjectTemplate `json:"template,omitempty"`
}

// WgGatewayServerTemplate is the template of WgGatewayServers.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=wggst;wgst
// +kubebuilder:metadata:labels="networking.liqo.io/gatewaytemplate=true"
type WgGatewayServerTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GatewayTemplateSpec `json:"spec,omitempty"`
}

// WgGatewayServerTemplateList is a list of WgGatewayServerTemplates.
//
// +kubebuilder:object:root=true
type WgGatewayServerTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WgGatewayServerTemplate `json:"items"`
}

// WgGatewayClientTemplate is the template of WgGatewayClients.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=wggct;wgct
// +kubebuilder:metadata:labels="networking.liqo.io/gatewaytemplate=true"
type WgGatewayClientTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GatewayTemplateSpec `json:"spec,omitempty"`
}

// WgGatewayClientTemplateList is a list of WgGatewayClientTemplates.
//
// +kubebuilder:object:root=true
type WgGatewayClientTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WgGatewayClientTemplate `json:"items"`
}
