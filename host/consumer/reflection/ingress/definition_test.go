package ingress

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func definition(class string) *Definition {
	return New(Options{
		Origin: remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-node"},
		Policy: offloadingv1beta1.DenyList, Workers: 3, Class: class,
	})
}

func shop(labels map[string]string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: labels},
		Spec: networkingv1.IngressSpec{
			IngressClassName: ptr.To("home-class"),
			TLS:              []networkingv1.IngressTLS{{Hosts: []string{"shop.example.com"}, SecretName: "shop-tls"}},
			Rules: []networkingv1.IngressRule{{Host: "shop.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
						Name: "storefront", Port: networkingv1.ServiceBackendPort{Name: "http"},
					}},
				}}},
			}}},
		},
	}
}

func owned() *networkingv1.Ingress {
	return shop(map[string]string{offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.DestinationLabel: "milan"})
}

func input(local, there *networkingv1.Ingress) engine.Input {
	in := engine.Input{
		Key:   engine.Key{Namespace: "shop", Name: "web"},
		Facts: engine.Facts{HomeClusterID: "rome", ProviderClusterID: "milan", RemoteNamespace: "shop-rome"},
	}
	if local != nil {
		in.Local = local
	}
	if there != nil {
		in.Remote = there
	}
	return in
}

func TestDecide(t *testing.T) {
	skipped := input(shop(nil), owned())
	skipped.Skipped = true
	tests := map[string]struct {
		in   engine.Input
		want engine.Action
	}{
		"a new Ingress is applied":               {input(shop(nil), nil), engine.Apply{}},
		"an Ingress is applied again":            {input(shop(nil), owned()), engine.Apply{}},
		"an Ingress that was deleted is deleted": {input(nil, owned()), engine.DeleteRemote{}},
		"an Ingress that is skipped is deleted":  {skipped, engine.DeleteRemote{}},
		"an unmanaged Ingress is left alone":     {input(shop(nil), shop(nil)), engine.RecordEvent{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			actions, err := definition("").Decide(tc.in)
			require.NoError(t, err)
			require.NotEmpty(t, actions)
			assert.IsType(t, tc.want, actions[0])
		})
	}
}

func TestTheClassIsTheProviders(t *testing.T) {
	for name, class := range map[string]string{"without a class of the provider": "", "with a class of the provider": "nginx"} {
		t.Run(name, func(t *testing.T) {
			in := input(shop(nil), nil)
			in.Annotations = map[string]string{"kubernetes.io/ingress.class": "home-class", "example.com/team": "shop"}
			actions, err := definition(class).Decide(in)
			require.NoError(t, err)
			require.IsType(t, engine.Apply{}, actions[0])
			body, err := json.Marshal(actions[0].(engine.Apply).Config)
			require.NoError(t, err)
			got := &networkingv1.Ingress{}
			require.NoError(t, json.Unmarshal(body, got))
			assert.Equal(t, class, ptr.Deref(got.Spec.IngressClassName, ""), "a class of the consumer has no meaning at the provider")
			assert.Equal(t, map[string]string{"example.com/team": "shop"}, got.Annotations, "the annotation before spec.ingressClassName included")
			assert.Equal(t, "shop-rome", got.Namespace)
			assert.Equal(t, "rome", got.Labels[offloadingv1beta1.OriginLabel])
			assert.Equal(t, shop(nil).Spec.Rules, got.Spec.Rules)
			assert.Equal(t, shop(nil).Spec.TLS, got.Spec.TLS)
		})
	}
}
