package remote_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/internal/testkit"
)

// forgeSlice returns the ShadowEndpointSlice of a local EndpointSlice, whose nodes all exist
// and whose addresses get a prefix.
func forgeSlice(t *testing.T, local *discoveryv1.EndpointSlice) *offloadingv1beta1.ShadowEndpointSlice {
	t.Helper()
	before := local.DeepCopy()
	config, err := remote.EndpointSlice(local, "shop-rome", local.Labels, local.Annotations, rome,
		func(string) *corev1.Node { return &corev1.Node{} },
		func(address string) (string, error) { return "via-" + address, nil })
	require.NoError(t, err)
	assert.Equal(t, before, local, "the argument is not altered")
	body, err := json.Marshal(config)
	require.NoError(t, err)
	got := &offloadingv1beta1.ShadowEndpointSlice{}
	require.NoError(t, json.Unmarshal(body, got))
	return got
}

func TestEndpointSlice(t *testing.T) {
	got := forgeSlice(t, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1", UID: "u",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io", offloadingv1beta1.OriginLabel: "x",
			},
			Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-05-01T10:00:00Z", "note": "x"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80)}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.1"}, Hostname: ptr.To("web-0"), NodeName: ptr.To("worker"), Zone: ptr.To("a"),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "p"},
			Hints: &discoveryv1.EndpointHints{
				ForZones: []discoveryv1.ForZone{{Name: "a"}}, ForNodes: []discoveryv1.ForNode{{Name: "worker"}},
			},
			DeprecatedTopology: map[string]string{"zone": "a"},
		}},
	})
	assert.Equal(t, &offloadingv1beta1.ShadowEndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowEndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop-rome", Name: "web-1", Annotations: map[string]string{"note": "x"},
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice.reflection.liqo.io",
				offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.DestinationLabel: "milan",
			},
		},
		Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80)}},
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{"via-10.0.0.1"}, Hostname: ptr.To("web-0"), NodeName: ptr.To("rome"), Zone: ptr.To("a"),
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)},
				TargetRef:  &corev1.ObjectReference{Kind: "RemotePod", Namespace: "shop", Name: "web-0", UID: "p"},
				Hints:      &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}},
			}},
		}},
	}, got)
	empty := forgeSlice(t, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, AddressType: discoveryv1.AddressTypeIPv6})
	assert.Empty(t, empty.Spec.Template.Endpoints, "a slice without endpoints is sent")
}

func TestEndpointsWithoutTranslationAreLeftOut(t *testing.T) {
	local := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, AddressType: discoveryv1.AddressTypeIPv4}
	for _, address := range []string{"10.0.0.1", "10.9.0.1", "10.9.0.2", "10.9.0.3", "10.9.0.4"} {
		local.Endpoints = append(local.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	config, err := remote.EndpointSlice(local, "shop-rome", nil, nil, rome, nil, func(address string) (string, error) {
		if strings.HasPrefix(address, "10.9.") {
			return "", errors.New("no route")
		}
		return address, nil
	})
	var leftOut *remote.LeftOutError
	require.ErrorAs(t, err, &leftOut)
	require.Len(t, leftOut.Reasons, 4)
	require.EqualError(t, err, `translating the address "10.9.0.1" of an endpoint: no route; translating the address "10.9.0.2" of an endpoint: no route; `+
		`translating the address "10.9.0.3" of an endpoint: no route; and 1 more`)
	require.Len(t, config.Spec.Template.Endpoints, 1)
	assert.Equal(t, []string{"10.0.0.1"}, config.Spec.Template.Endpoints[0].Addresses)
}

func TestEveryFieldOfAnEndpointIsCarriedOrDroppedWithAReason(t *testing.T) {
	dropped := remote.DroppedEndpointFields()
	endpoint := reflect.TypeFor[discoveryv1.Endpoint]()
	for i := range endpoint.NumField() {
		name := endpoint.Field(i).Name
		local := &discoveryv1.EndpointSlice{Endpoints: make([]discoveryv1.Endpoint, 1)}
		testkit.Fill(reflect.ValueOf(&local.Endpoints[0]).Elem().Field(i), 5)
		got := forgeSlice(t, local)
		require.Len(t, got.Spec.Template.Endpoints, 1)
		carried := !reflect.ValueOf(got.Spec.Template.Endpoints[0]).Field(i).IsZero()
		assert.NotEqual(t, carried, dropped[name] != "", "%s: exactly one of carried and listed in DroppedEndpointFields", name)
	}
}
