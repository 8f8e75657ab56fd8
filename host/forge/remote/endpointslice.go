package remote

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// endpointSliceManager is the manager of reflected EndpointSlices. With it, the
	// provider's own EndpointSlice controller leaves them alone.
	endpointSliceManager = "endpointslice.reflection.liqo.io"
	// remoteTargetPrefix is added to the kind of an endpoint's target, which is not an object of
	// the provider.
	remoteTargetPrefix = "Remote"
)

// ShadowEndpointSliceApplyConfiguration is the apply configuration of a ShadowEndpointSlice.
type ShadowEndpointSliceApplyConfiguration struct {
	applymetav1.TypeMetaApplyConfiguration    `json:",inline"`
	*applymetav1.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`

	Spec offloadingv1beta1.ShadowEndpointSliceSpec `json:"spec"`
}

// IsApplyConfiguration implements runtime.ApplyConfiguration.
func (ShadowEndpointSliceApplyConfiguration) IsApplyConfiguration() {}

// maxReasons is the number of reasons in the text of a LeftOutError.
const maxReasons = 3

// LeftOutError is returned with a configuration that lacks parts of the local object.
type LeftOutError struct {
	// Reasons has one for each part.
	Reasons []string
}

// Error implements error.
func (e *LeftOutError) Error() string {
	text := strings.Join(e.Reasons[:min(len(e.Reasons), maxReasons)], "; ")
	if more := len(e.Reasons) - maxReasons; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// EndpointSlice builds the ShadowEndpointSlice of a local EndpointSlice. namespace
// is the remote namespace; labels and annotations are the filtered ones. nodeOf returns the
// Node of a name, nil when there is none; it selects the endpoints.
// translate translates their addresses. Endpoints for which it fails are left out, with a
// [LeftOutError] beside the result: one endpoint must not keep the others from being updated.
func EndpointSlice(local *discoveryv1.EndpointSlice, namespace string, labels, annotations map[string]string, origin Origin,
	nodeOf func(name string) *corev1.Node, translate func(address string) (string, error),
) (*ShadowEndpointSliceApplyConfiguration, error) {
	owned := ownedLabels(labels, origin)
	owned[endpointSliceManagedByLabel] = endpointSliceManager
	template := offloadingv1beta1.EndpointSliceTemplate{Ports: local.DeepCopy().Ports, AddressType: local.AddressType}
	var leftOut LeftOutError
	for i := range local.Endpoints {
		if !isReflectedEndpoint(&local.Endpoints[i], origin, nodeOf) {
			continue
		}
		endpoint, err := forgeEndpoint(&local.Endpoints[i], local.AddressType, origin, translate)
		if err != nil {
			leftOut.Reasons = append(leftOut.Reasons, err.Error())
			continue
		}
		template.Endpoints = append(template.Endpoints, *endpoint)
	}
	gvk := offloadingv1beta1.ShadowEndpointSliceGVK
	config := &ShadowEndpointSliceApplyConfiguration{
		TypeMetaApplyConfiguration: *applymetav1.TypeMeta().WithAPIVersion(gvk.GroupVersion().String()).WithKind(gvk.Kind),
		ObjectMetaApplyConfiguration: applymetav1.ObjectMeta().WithName(local.Name).WithNamespace(namespace).WithLabels(owned).
			// The time of a change that may be one of a left-out endpoint: it would be sent again
			// for each of them.
			WithAnnotations(withoutKey(annotations, corev1.EndpointsLastChangeTriggerTime)),
		Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: template},
	}
	if len(leftOut.Reasons) > 0 {
		return config, &leftOut
	}
	return config, nil
}

// isReflectedEndpoint reports whether an endpoint is sent. One on a Node of this provider is
// left out, since it is the provider's own, and one on a Node that does not exist too.
func isReflectedEndpoint(endpoint *discoveryv1.Endpoint, origin Origin, nodeOf func(name string) *corev1.Node) bool {
	if endpoint.NodeName == nil {
		return true // outside of both clusters
	}
	node := nodeOf(*endpoint.NodeName)
	return node != nil && node.Labels[liqocorev1beta1.RemoteClusterIDLabel] != origin.ProviderClusterID
}

// forgeEndpoint builds the remote endpoint. A test fails for fields that are neither here nor
// in DroppedEndpointFields.
func forgeEndpoint(local *discoveryv1.Endpoint, addressType discoveryv1.AddressType, origin Origin, translate func(address string) (string, error)) (*discoveryv1.Endpoint, error) {
	in := local.DeepCopy()
	endpoint := &discoveryv1.Endpoint{
		// Serving and terminating too, so that connections are drained.
		Conditions: in.Conditions,
		Hostname:   in.Hostname,
		NodeName:   &origin.HomeClusterID,
		TargetRef:  in.TargetRef,
		Zone:       in.Zone,
	}
	for _, original := range in.Addresses {
		translated := original
		if addressType != discoveryv1.AddressTypeFQDN {
			var err error
			if translated, err = translate(original); err != nil {
				return nil, fmt.Errorf("translating the address %q of an endpoint: %w", original, err)
			}
		}
		endpoint.Addresses = append(endpoint.Addresses, translated)
	}
	if endpoint.TargetRef != nil {
		endpoint.TargetRef.Kind = remoteTargetPrefix + endpoint.TargetRef.Kind
	}
	if in.Hints != nil && len(in.Hints.ForZones) > 0 {
		// Hints for nodes name nodes of the consumer.
		endpoint.Hints = &discoveryv1.EndpointHints{ForZones: in.Hints.ForZones}
	}
	return endpoint, nil
}

// DroppedEndpointFields returns the fields of an endpoint that are not sent, with the reasons.
func DroppedEndpointFields() map[string]string {
	return map[string]string{
		"DeprecatedTopology": "has labels of the consumer's nodes",
	}
}
