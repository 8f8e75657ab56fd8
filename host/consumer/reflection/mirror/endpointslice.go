package mirror

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/longshore-dev/longshore/host/apis/ipam/v1alpha1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/kit/address"
)

// The places of the related kinds of EndpointSlices in engine.Input.Related.
const (
	relatedService = iota
	relatedNode
	relatedIP
	relatedSentService
)

// endpointSlice mirrors EndpointSlices as ShadowEndpointSlices, of which the provider makes
// EndpointSlices. Remote pods reach the consumer's endpoints by them.
var endpointSlice = kind[*discoveryv1.EndpointSlice]{
	name:      "endpointslice",
	empty:     func() client.Object { return &discoveryv1.EndpointSlice{} },
	emptyList: func() client.ObjectList { return &discoveryv1.EndpointSliceList{} },
	remote: &engine.Kind{
		New:     func() client.Object { return &offloadingv1beta1.ShadowEndpointSlice{} },
		NewList: func() client.ObjectList { return &offloadingv1beta1.ShadowEndpointSliceList{} },
	},
	related: []engine.Related{
		relatedService: localServices(slicesOfService),
		relatedNode: {
			Kind: engine.Kind{
				New:           func() client.Object { return &corev1.Node{} },
				NewList:       func() client.ObjectList { return &corev1.NodeList{} },
				ClusterScoped: true, Trim: trimNode,
			},
			Keys: slicesOnNode,
		},
		relatedIP: {
			Kind: engine.Kind{
				New:     func() client.Object { return &ipamv1alpha1.IP{} },
				NewList: func() client.ObjectList { return &ipamv1alpha1.IPList{} },
				Plural:  "ips",
			},
			Keys: slicesWithIP, Matches: isOfAddress,
		},
		relatedSentService: sentServices(slicesOfService),
	},
	awaits: func(local *discoveryv1.EndpointSlice, in engine.Input) string {
		name := local.Labels[discoveryv1.LabelServiceName]
		if name == "" || engine.IsAnnotated(local) || in.Related[relatedSentService](name) != nil {
			return ""
		}
		return name
	},
	forge: func(local *discoveryv1.EndpointSlice, in engine.Input, o Options) (runtime.ApplyConfiguration, error) {
		nodeOf := func(name string) *corev1.Node {
			node, _ := in.Related[relatedNode](name).(*corev1.Node)
			return node
		}
		return remote.EndpointSlice(local, in.Facts.RemoteNamespace, in.Labels, in.Annotations, o.Origin, nodeOf, addressesFor(in, o).Translate)
	},
	ignore: func(in engine.Input) string {
		if in.Key == (engine.Key{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}) {
			return "it has the endpoints of the API server"
		}
		return ""
	},
	policyOf:     "service",
	policy:       endpointSlicePolicy,
	hasAddresses: true,
}

// endpointSlicePolicy returns the policy of an EndpointSlice: its own annotations come first,
// then its Service is reflected or not. Without Service, its own annotations decide as those
// of a Service would.
func endpointSlicePolicy(local *discoveryv1.EndpointSlice, in engine.Input, d offloadingv1beta1.ReflectionType) (offloadingv1beta1.ReflectionType, client.Object) {
	if engine.IsAnnotated(local) {
		return engine.Explicit, local
	}
	if name := local.Labels[discoveryv1.LabelServiceName]; name != "" {
		if service := in.Related[relatedService](name); service != nil {
			return d, service
		}
	}
	return d, local
}

// slicesOfService returns the names of the EndpointSlices of a Service.
func slicesOfService(service client.Object, locals []client.Object) []string {
	var names []string
	for _, local := range locals {
		if local.GetLabels()[discoveryv1.LabelServiceName] == service.GetName() {
			names = append(names, local.GetName())
		}
	}
	return names
}

// slicesOnNode returns the names of the EndpointSlices with an endpoint on a Node.
func slicesOnNode(node client.Object, locals []client.Object) []string {
	var names []string
	for _, local := range locals {
		slice, ok := local.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		for i := range slice.Endpoints {
			if name := slice.Endpoints[i].NodeName; name != nil && *name == node.GetName() {
				names = append(names, slice.Name)
				break
			}
		}
	}
	return names
}

// addressesFor returns what translates addresses of the consumer for the provider. The provider
// translates those of local pods itself.
func addressesFor(in engine.Input, o Options) address.Translator {
	if o.LocalPods == nil {
		return address.Identity{}
	}
	pods, isTranslated := o.LocalPods()
	if !isTranslated {
		return address.Identity{}
	}
	return address.Outgoing{Pods: pods, IPOf: func(original string) *ipamv1alpha1.IP {
		ip, _ := in.Related[relatedIP](original).(*ipamv1alpha1.IP)
		return ip
	}}
}

// isOfAddress reports whether an IP is that of an address.
func isOfAddress(object client.Object, address string) bool {
	ip, ok := object.(*ipamv1alpha1.IP)
	return ok && string(ip.Spec.IP) == address
}

// slicesWithIP returns the names of the EndpointSlices with an endpoint that has the address of an
// IP.
func slicesWithIP(ip client.Object, locals []client.Object) []string {
	var names []string
	for _, local := range locals {
		slice, ok := local.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		hasAddress := slices.ContainsFunc(slice.Endpoints, func(endpoint discoveryv1.Endpoint) bool {
			return slices.ContainsFunc(endpoint.Addresses, func(address string) bool { return isOfAddress(ip, address) })
		})
		if hasAddress {
			names = append(names, slice.Name)
		}
	}
	return names
}

// trimNode removes all but the metadata of a Node that endpoints depend on.
func trimNode(object client.Object) {
	if node, ok := object.(*corev1.Node); ok {
		node.Annotations, node.OwnerReferences = nil, nil
		node.Spec, node.Status = corev1.NodeSpec{}, corev1.NodeStatus{}
	}
}
