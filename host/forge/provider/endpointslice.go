package provider

import (
	"fmt"
	"maps"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// DirectConnectionsDataAnnotation on a ShadowEndpointSlice lists the endpoints that other
// providers run. It is not copied to the EndpointSlice.
const DirectConnectionsDataAnnotation = "liqo.io/direct-connections-data"

// EndpointSlice builds the EndpointSlice of a ShadowEndpointSlice: its labels and
// annotations, its endpoints with translated addresses, the ShadowEndpointSlice as controller.
// translate translates addresses of the consumer. reachable is false when this cluster does not reach the
// consumer; no endpoint is ready then. An endpoint whose address cannot be translated is left out, and
// leftOut says why.
func EndpointSlice(shadow *offloadingv1beta1.ShadowEndpointSlice, reachable bool, translate func(address string) (string, error)) (slice *discoveryv1.EndpointSlice, leftOut []string) {
	labels := maps.Clone(shadow.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[offloadingv1beta1.ManagedByLabel] = offloadingv1beta1.ManagedByShadowEndpointSlice
	annotations := maps.Clone(shadow.Annotations)
	delete(annotations, DirectConnectionsDataAnnotation)
	template := shadow.Spec.Template.DeepCopy()
	var endpoints []discoveryv1.Endpoint
	for i := range template.Endpoints {
		if err := forgeEndpoint(&template.Endpoints[i], template.AddressType, reachable, translate); err != nil {
			leftOut = append(leftOut, err.Error())
			continue
		}
		endpoints = append(endpoints, template.Endpoints[i])
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: shadow.Name, Namespace: shadow.Namespace, Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(shadow, offloadingv1beta1.ShadowEndpointSliceGVK)},
		},
		AddressType: template.AddressType, Endpoints: endpoints, Ports: template.Ports,
	}, leftOut
}

// forgeEndpoint translates the addresses and sets the conditions. Serving and terminating are
// kept, so that connections to a terminating endpoint are drained.
func forgeEndpoint(endpoint *discoveryv1.Endpoint, addressType discoveryv1.AddressType, reachable bool, translate func(address string) (string, error)) error {
	for i, original := range endpoint.Addresses {
		if addressType == discoveryv1.AddressTypeFQDN {
			break
		}
		translated, err := translate(original)
		if err != nil {
			return fmt.Errorf("translating address %q: %w", original, err)
		}
		endpoint.Addresses[i] = translated
	}
	endpoint.DeprecatedTopology = nil
	conditions := &endpoint.Conditions
	ready := reachable && (conditions.Ready == nil || *conditions.Ready)
	conditions.Ready = &ready
	if conditions.Serving != nil {
		serving := reachable && *conditions.Serving
		conditions.Serving = &serving
	}
	return nil
}
