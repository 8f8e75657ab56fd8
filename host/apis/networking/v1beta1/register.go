package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "networking.liqo.io", Version: "v1beta1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Configuration{}, &ConfigurationList{},
		&Connection{}, &ConnectionList{},
		&GatewayServer{}, &GatewayServerList{},
		&GatewayClient{}, &GatewayClientList{},
		&PublicKey{}, &PublicKeyList{},
		&WgGatewayServer{}, &WgGatewayServerList{},
		&WgGatewayClient{}, &WgGatewayClientList{},
		&WgGatewayServerTemplate{}, &WgGatewayServerTemplateList{},
		&WgGatewayClientTemplate{}, &WgGatewayClientTemplateList{},
		&InternalFabric{}, &InternalFabricList{},
		&InternalNode{}, &InternalNodeList{},
		&GeneveTunnel{}, &GeneveTunnelList{},
		&FirewallConfiguration{}, &FirewallConfigurationList{},
		&RouteConfiguration{}, &RouteConfigurationList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
