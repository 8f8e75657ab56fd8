package provider_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
	"github.com/longshore-dev/longshore/host/internal/testkit"
)

// remapped translates addresses; it fails for "10.0.0.99".
func remapped(original string) (string, error) {
	if original == "10.0.0.99" {
		return "", errors.New("no translation")
	}
	return strings.Replace(original, "10.0.", "10.71.", 1), nil
}

func same(original string) (string, error) { return original, nil }

func TestEndpointSlice(t *testing.T) {
	source := testkit.Endpoint()
	source.Hostname, source.Zone = ptr.To("web-0"), ptr.To("a")
	source.TargetRef = &corev1.ObjectReference{Kind: "RemotePod", Namespace: "shop", Name: "web-0"}
	source.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}}
	source.DeprecatedTopology = map[string]string{"zone": "a"}
	shadow := testkit.ShadowEndpointSlice(source)
	before := shadow.DeepCopy()
	slice, leftOut := provider.EndpointSlice(shadow, true, remapped)
	require.Empty(t, leftOut)
	assert.Equal(t, before, shadow, "the source is not changed")

	assert.Equal(t, "web-x1", slice.Name)
	assert.Equal(t, "shop-rome", slice.Namespace)
	assert.Equal(t, map[string]string{
		discoveryv1.LabelServiceName: "web", offloadingv1beta1.OriginLabel: "rome",
		discoveryv1.LabelManagedBy:       "endpointslice.reflection.liqo.io",
		offloadingv1beta1.ManagedByLabel: "shadowendpointslice",
	}, slice.Labels)
	assert.Equal(t, map[string]string{"note": "x"}, slice.Annotations)
	assert.True(t, metav1.IsControlledBy(slice, shadow))
	assert.Equal(t, discoveryv1.AddressTypeIPv4, slice.AddressType)
	assert.Equal(t, shadow.Spec.Template.Ports, slice.Ports)

	want := source
	want.Addresses, want.DeprecatedTopology = []string{"10.71.0.5"}, nil
	want.Conditions.Ready = ptr.To(true)
	assert.Equal(t, []discoveryv1.Endpoint{want}, slice.Endpoints)
}

func TestTheConditionsOfEndpoints(t *testing.T) {
	yes, no := ptr.To(true), ptr.To(false)
	tests := map[string]struct {
		endpoint  discoveryv1.Endpoint
		reachable bool
		want      discoveryv1.EndpointConditions
	}{
		"reachable, readiness unknown":          {testkit.Endpoint(), true, discoveryv1.EndpointConditions{Ready: yes}},
		"reachable, ready":                      {testkit.Endpoint(yes), true, discoveryv1.EndpointConditions{Ready: yes}},
		"reachable, not ready":                  {testkit.Endpoint(no), true, discoveryv1.EndpointConditions{Ready: no}},
		"unreachable, readiness unknown":        {testkit.Endpoint(), false, discoveryv1.EndpointConditions{Ready: no}},
		"unreachable, ready":                    {testkit.Endpoint(yes), false, discoveryv1.EndpointConditions{Ready: no}},
		"unreachable, not ready":                {testkit.Endpoint(no), false, discoveryv1.EndpointConditions{Ready: no}},
		"reachable, terminating and serving":    {testkit.Endpoint(no, yes, yes), true, discoveryv1.EndpointConditions{Ready: no, Serving: yes, Terminating: yes}},
		"reachable, terminating and stopped":    {testkit.Endpoint(no, no, yes), true, discoveryv1.EndpointConditions{Ready: no, Serving: no, Terminating: yes}},
		"unreachable, terminating and serving":  {testkit.Endpoint(no, yes, yes), false, discoveryv1.EndpointConditions{Ready: no, Serving: no, Terminating: yes}},
		"reachable, serving and not terminated": {testkit.Endpoint(yes, yes, no), true, discoveryv1.EndpointConditions{Ready: yes, Serving: yes, Terminating: no}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			slice, leftOut := provider.EndpointSlice(testkit.ShadowEndpointSlice(tc.endpoint), tc.reachable, same)
			require.Empty(t, leftOut)
			assert.Equal(t, tc.want, slice.Endpoints[0].Conditions)
			assert.Equal(t, []string{"10.0.0.5"}, slice.Endpoints[0].Addresses)
		})
	}
}

// One endpoint does not keep the others from being updated: a dead one would stay ready.
func TestAnEndpointWithoutTranslationIsLeftOut(t *testing.T) {
	source := testkit.Endpoint()
	source.Addresses = []string{"10.0.0.99"}
	slice, leftOut := provider.EndpointSlice(testkit.ShadowEndpointSlice(source, testkit.Endpoint()), true, remapped)
	assert.Equal(t, []string{`translating address "10.0.0.99": no translation`}, leftOut)
	require.Len(t, slice.Endpoints, 1)
	assert.Equal(t, []string{"10.71.0.5"}, slice.Endpoints[0].Addresses)
}

func TestAnEmptySlice(t *testing.T) {
	slice, leftOut := provider.EndpointSlice(testkit.ShadowEndpointSlice(), true, same)
	assert.Empty(t, leftOut)
	assert.Empty(t, slice.Endpoints)
}
