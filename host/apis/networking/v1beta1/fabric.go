package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamedInterface is an interface with a name.
type NamedInterface struct {
	// Name of the interface.
	Name string `json:"name"`
}

// AddressedInterface is an interface with an address.
type AddressedInterface struct {
	// IP of the interface.
	IP IP `json:"ip"`
}

// InternalFabricInterface are the ends of the tunnels between a gateway and the nodes.
type InternalFabricInterface struct {
	// Node is the end at a node.
	Node NamedInterface `json:"node"`
	// Gateway is the end at the gateway.
	Gateway AddressedInterface `json:"gateway"`
}

// InternalFabricSpec is the desired state of an InternalFabric.
type InternalFabricSpec struct {
	// MTU of the tunnels, in bytes.
	MTU int `json:"mtu,omitempty"`
	// RemoteCIDRs are the networks behind the gateway.
	RemoteCIDRs []CIDR `json:"remoteCIDRs,omitempty"`
	// Interface names the ends of the tunnels.
	Interface InternalFabricInterface `json:"interface"`
	// GatewayIP is the address of the gateway's pod.
	GatewayIP IP `json:"gatewayIP"`
}

// InternalFabric is the network between a gateway and the nodes of its cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=if;ifabric
// +kubebuilder:printcolumn:name="Gateway IP",type=string,JSONPath=`.spec.gatewayIP`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type InternalFabric struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec InternalFabricSpec `json:"spec,omitempty"`
}

// InternalFabricList is a list of InternalFabrics.
//
// +kubebuilder:object:root=true
type InternalFabricList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []InternalFabric `json:"items"`
}

// InternalNodeInterface are the ends of the tunnels between a node and the gateways.
type InternalNodeInterface struct {
	// Gateway is the end at a gateway.
	Gateway NamedInterface `json:"gateway"`
	// Node is the end at the node.
	Node AddressedInterface `json:"node"`
}

// InternalNodeSpec is the desired state of an InternalNode.
type InternalNodeSpec struct {
	// Interface names the ends of the tunnels.
	Interface InternalNodeInterface `json:"interface"`
}

// NodeIP are the addresses of a node.
type NodeIP struct {
	// Local is the address that pods of the node see.
	Local *IP `json:"local,omitempty"`
	// Remote is the address that pods of other nodes see.
	Remote *IP `json:"remote,omitempty"`
}

// InternalNodeStatus is the observed state of an InternalNode.
type InternalNodeStatus struct {
	// NodeIP are the addresses of the node.
	NodeIP NodeIP `json:"nodeIP,omitempty"`
}

// InternalNode is a node in the network of the gateways.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,scope=Cluster,shortName=in;inode
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Node IP Local",type=string,JSONPath=`.status.nodeIP.local`
// +kubebuilder:printcolumn:name="Node IP Remote",type=string,JSONPath=`.status.nodeIP.remote`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type InternalNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   InternalNodeSpec   `json:"spec,omitempty"`
	Status InternalNodeStatus `json:"status,omitempty,omitzero"`
}

// InternalNodeList is a list of InternalNodes.
//
// +kubebuilder:object:root=true
type InternalNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []InternalNode `json:"items"`
}

// GeneveTunnelSpec is the desired state of a GeneveTunnel.
type GeneveTunnelSpec struct {
	// ID of the tunnel.
	// +kubebuilder:validation:Minimum=0
	ID uint32 `json:"id"`
	// InternalNodeRef refers to the node.
	InternalNodeRef *corev1.ObjectReference `json:"internalNodeRef"`
	// InternalFabricRef refers to the fabric.
	InternalFabricRef *corev1.ObjectReference `json:"internalFabricRef"`
}

// GeneveTunnel is a tunnel between a node and a gateway.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=gvtn
type GeneveTunnel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GeneveTunnelSpec `json:"spec,omitempty"`
}

// GeneveTunnelList is a list of GeneveTunnels.
//
// +kubebuilder:object:root=true
type GeneveTunnelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GeneveTunnel `json:"items"`
}
