package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerEndpoint is how the Service of a gateway server is made.
//
// +kubebuilder:validation:XValidation:rule="has(self.port) != has(self.ports)",message="exactly one of port and ports is required"
// +kubebuilder:validation:XValidation:rule="!(has(self.nodePort) && has(self.nodePorts))",message="nodePort and nodePorts exclude each other"
type ServerEndpoint struct {
	// Port of the Service. Deprecated: use Ports.
	// +optional
	Port *int32 `json:"port,omitempty"`
	// Ports of the Service.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Ports []int32 `json:"ports,omitempty"`
	// ServiceType of the Service.
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer;ExternalName
	// +kubebuilder:default=ClusterIP
	ServiceType corev1.ServiceType `json:"serviceType,omitempty"`
	// NodePort of the Service. Deprecated: use NodePorts.
	// +optional
	NodePort *int32 `json:"nodePort,omitempty"`
	// NodePorts of the Service.
	// +listType=set
	// +optional
	NodePorts []int32 `json:"nodePorts,omitempty"`
	// LoadBalancerIP of the Service.
	// +optional
	LoadBalancerIP *string `json:"loadBalancerIP,omitempty"`
}

// EndpointStatus is where a gateway server is reached.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.port) && has(self.ports))",message="port and ports exclude each other"
type EndpointStatus struct {
	// Addresses are IP addresses or host names.
	Addresses []string `json:"addresses,omitempty"`
	// Port of the server. Deprecated: use Ports.
	// +optional
	Port *int32 `json:"port,omitempty"`
	// Ports of the server.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	Ports []int32 `json:"ports,omitempty"`
	// Protocol of the tunnel.
	// +kubebuilder:validation:Enum=TCP;UDP
	Protocol *corev1.Protocol `json:"protocol,omitempty"`
}

// InternalGatewayEndpoint is where the fabric of the cluster reaches a gateway.
type InternalGatewayEndpoint struct {
	// IP of the gateway's pod.
	IP *IP `json:"ip,omitempty"`
	// Node on which it runs.
	Node *string `json:"node,omitempty"`
}

// GatewayServerSpec is the desired state of a GatewayServer.
type GatewayServerSpec struct {
	// ServerTemplateRef refers to the template of the object that implements the gateway.
	ServerTemplateRef corev1.ObjectReference `json:"serverTemplateRef,omitempty"`
	// MTU of the tunnel, in bytes.
	MTU int `json:"mtu,omitempty"`
	// Endpoint is how the Service is made.
	Endpoint ServerEndpoint `json:"endpoint,omitempty"`
	// SecretRef refers to the keys of the gateway. They are made if it is empty.
	SecretRef corev1.LocalObjectReference `json:"secretRef,omitempty"`
	// ServiceAnnotations of the Service.
	ServiceAnnotations map[string]string `json:"serviceAnnotations,omitempty"`
	// ServiceLabels of the Service.
	ServiceLabels map[string]string `json:"serviceLabels,omitempty"`
}

// GatewayServerStatus is the observed state of a GatewayServer.
type GatewayServerStatus struct {
	// ServerRef refers to the object that implements the gateway.
	ServerRef *corev1.ObjectReference `json:"serverRef,omitempty"`
	// Endpoint is where clients reach the gateway.
	Endpoint *EndpointStatus `json:"endpoint,omitempty"`
	// SecretRef refers to the keys of the gateway.
	SecretRef *corev1.ObjectReference `json:"secretRef,omitempty"`
	// InternalEndpoint is where the fabric reaches the gateway.
	InternalEndpoint *InternalGatewayEndpoint `json:"internalEndpoint,omitempty"`
}

// GatewayServer is the end of a tunnel that listens.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=gws;gwserver
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Template Kind",type=string,priority=1,JSONPath=`.spec.serverTemplateRef.kind`
// +kubebuilder:printcolumn:name="Template Name",type=string,JSONPath=`.spec.serverTemplateRef.name`
// +kubebuilder:printcolumn:name="Template Namespace",type=string,priority=1,JSONPath=`.spec.serverTemplateRef.namespace`
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.status.endpoint.addresses[*]`
// +kubebuilder:printcolumn:name="Port",type=string,JSONPath=`.status.endpoint.port`
// +kubebuilder:printcolumn:name="Protocol",type=string,priority=1,JSONPath=`.status.endpoint.protocol`
// +kubebuilder:printcolumn:name="MTU",type=integer,priority=1,JSONPath=`.spec.mtu`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GatewayServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GatewayServerSpec   `json:"spec,omitempty"`
	Status GatewayServerStatus `json:"status,omitempty,omitzero"`
}

// GatewayServerList is a list of GatewayServers.
//
// +kubebuilder:object:root=true
type GatewayServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GatewayServer `json:"items"`
}

// GatewayClientSpec is the desired state of a GatewayClient.
type GatewayClientSpec struct {
	// ClientTemplateRef refers to the template of the object that implements the gateway.
	ClientTemplateRef corev1.ObjectReference `json:"clientTemplateRef,omitempty"`
	// MTU of the tunnel, in bytes.
	MTU int `json:"mtu,omitempty"`
	// Endpoint of the server.
	Endpoint EndpointStatus `json:"endpoint,omitempty"`
	// SecretRef refers to the keys of the gateway. They are made if it is empty.
	SecretRef corev1.LocalObjectReference `json:"secretRef,omitempty"`
}

// GatewayClientStatus is the observed state of a GatewayClient.
type GatewayClientStatus struct {
	// ClientRef refers to the object that implements the gateway.
	ClientRef *corev1.ObjectReference `json:"clientRef,omitempty"`
	// SecretRef refers to the keys of the gateway.
	SecretRef *corev1.ObjectReference `json:"secretRef,omitempty"`
	// InternalEndpoint is where the fabric reaches the gateway.
	InternalEndpoint *InternalGatewayEndpoint `json:"internalEndpoint,omitempty"`
}

// GatewayClient is the end of a tunnel that connects.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=gwc;gwclient
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Template Kind",type=string,priority=1,JSONPath=`.spec.clientTemplateRef.kind`
// +kubebuilder:printcolumn:name="Template Name",type=string,JSONPath=`.spec.clientTemplateRef.name`
// +kubebuilder:printcolumn:name="Template Namespace",type=string,priority=1,JSONPath=`.spec.clientTemplateRef.namespace`
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.spec.endpoint.addresses[*]`
// +kubebuilder:printcolumn:name="Port",type=string,JSONPath=`.spec.endpoint.port`
// +kubebuilder:printcolumn:name="Protocol",type=string,priority=1,JSONPath=`.spec.endpoint.protocol`
// +kubebuilder:printcolumn:name="MTU",type=integer,priority=1,JSONPath=`.spec.mtu`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GatewayClient struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GatewayClientSpec   `json:"spec,omitempty"`
	Status GatewayClientStatus `json:"status,omitempty,omitzero"`
}

// GatewayClientList is a list of GatewayClients.
//
// +kubebuilder:object:root=true
type GatewayClientList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GatewayClient `json:"items"`
}
