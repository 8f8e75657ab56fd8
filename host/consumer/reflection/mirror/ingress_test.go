package mirror

import (
	"testing"

	"github.com/stretchr/testify/assert"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
)

func TestTheClassOfAnIngressIsTheProviders(t *testing.T) {
	local := &networkingv1.Ingress{ObjectMeta: metadata, Spec: networkingv1.IngressSpec{
		IngressClassName: ptr.To("consumer-class"),
		TLS:              []networkingv1.IngressTLS{{Hosts: []string{"shop.example.com"}, SecretName: "shop-tls"}},
		Rules: []networkingv1.IngressRule{{Host: "shop.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
					Name: "storefront", Port: networkingv1.ServiceBackendPort{Name: "http"},
				}},
			}}},
		}}},
	}}
	for name, class := range map[string]string{"without a class of the provider": "", "with a class of the provider": "nginx"} {
		t.Run(name, func(t *testing.T) {
			in := input(local, nil)
			in.Related = lookups(nil, nil)
			in.Annotations = map[string]string{"kubernetes.io/ingress.class": "consumer-class", "example.com/team": "shop"}
			got := &networkingv1.Ingress{}
			applied(t, define(ingress, class), in, got)
			assert.Equal(t, class, ptr.Deref(got.Spec.IngressClassName, ""))
			assert.Equal(t, map[string]string{"example.com/team": "shop"}, got.Annotations)
			assert.Equal(t, local.Spec.Rules, got.Spec.Rules)
			assert.Equal(t, local.Spec.TLS, got.Spec.TLS)
		})
	}
}
