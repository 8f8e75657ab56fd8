package testkit

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
)

// ShadowEndpointSlice returns the ShadowEndpointSlice shop-rome/web-x1 of the Service web, from the consumer rome.
func ShadowEndpointSlice(endpoints ...discoveryv1.Endpoint) *offloadingv1beta1.ShadowEndpointSlice {
	return &offloadingv1beta1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-x1", Namespace: "shop-rome", UID: "shadow-1",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", offloadingv1beta1.OriginLabel: "rome",
				discoveryv1.LabelManagedBy: "endpointslice.reflection.liqo.io",
			},
			Annotations: map[string]string{"note": "x", provider.DirectConnectionsDataAnnotation: "{}"},
		},
		Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80), Protocol: ptr.To(corev1.ProtocolTCP)}},
		}},
	}
}

// Endpoint returns an endpoint in rome with conditions: ready, serving and terminating.
func Endpoint(conditions ...*bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{"10.0.0.5"}, NodeName: ptr.To("rome")}
	for i, field := range []**bool{&e.Conditions.Ready, &e.Conditions.Serving, &e.Conditions.Terminating} {
		if i < len(conditions) {
			*field = conditions[i]
		}
	}
	return e
}
