package shadowendpointslice

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

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/address"
)

// remapped is a Translator; it fails for the address "10.0.0.99".
type remapped struct{}

func (remapped) Translate(original string) (string, error) {
	if original == "10.0.0.99" {
		return "", errors.New("no translation")
	}
	return strings.Replace(original, "10.0.", "10.71.", 1), nil
}

func newShadow(endpoints ...discoveryv1.Endpoint) *offloadingv1beta1.ShadowEndpointSlice {
	return &offloadingv1beta1.ShadowEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-x1", Namespace: "shop-rome", UID: "shadow-1",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", offloadingv1beta1.OriginLabel: "rome",
				discoveryv1.LabelManagedBy: "endpointslice.reflection.liqo.io",
			},
			Annotations: map[string]string{"note": "x", DirectConnectionsDataAnnotation: "{}"},
		},
		Spec: offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80), Protocol: ptr.To(corev1.ProtocolTCP)}},
		}},
	}
}

// endpoint returns an endpoint with conditions: ready, serving and terminating.
func endpoint(conditions ...*bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{"10.0.0.5"}, NodeName: ptr.To("rome")}
	for i, field := range []**bool{&e.Conditions.Ready, &e.Conditions.Serving, &e.Conditions.Terminating} {
		if i < len(conditions) {
			*field = conditions[i]
		}
	}
	return e
}

func TestForge(t *testing.T) {
	source := endpoint()
	source.Hostname, source.Zone = ptr.To("web-0"), ptr.To("a")
	source.TargetRef = &corev1.ObjectReference{Kind: "RemotePod", Namespace: "shop", Name: "web-0"}
	source.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}}
	source.DeprecatedTopology = map[string]string{"zone": "a"}
	shadow := newShadow(source)
	before := shadow.DeepCopy()
	slice, leftOut := Forge(shadow, true, remapped{})
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

func TestForgeConditions(t *testing.T) {
	yes, no := ptr.To(true), ptr.To(false)
	tests := map[string]struct {
		endpoint  discoveryv1.Endpoint
		reachable bool
		want      discoveryv1.EndpointConditions
	}{
		"reachable, readiness unknown":          {endpoint(), true, discoveryv1.EndpointConditions{Ready: yes}},
		"reachable, ready":                      {endpoint(yes), true, discoveryv1.EndpointConditions{Ready: yes}},
		"reachable, not ready":                  {endpoint(no), true, discoveryv1.EndpointConditions{Ready: no}},
		"unreachable, readiness unknown":        {endpoint(), false, discoveryv1.EndpointConditions{Ready: no}},
		"unreachable, ready":                    {endpoint(yes), false, discoveryv1.EndpointConditions{Ready: no}},
		"unreachable, not ready":                {endpoint(no), false, discoveryv1.EndpointConditions{Ready: no}},
		"reachable, terminating and serving":    {endpoint(no, yes, yes), true, discoveryv1.EndpointConditions{Ready: no, Serving: yes, Terminating: yes}},
		"reachable, terminating and stopped":    {endpoint(no, no, yes), true, discoveryv1.EndpointConditions{Ready: no, Serving: no, Terminating: yes}},
		"unreachable, terminating and serving":  {endpoint(no, yes, yes), false, discoveryv1.EndpointConditions{Ready: no, Serving: no, Terminating: yes}},
		"reachable, serving and not terminated": {endpoint(yes, yes, no), true, discoveryv1.EndpointConditions{Ready: yes, Serving: yes, Terminating: no}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			slice, leftOut := Forge(newShadow(tc.endpoint), tc.reachable, address.Identity{})
			require.Empty(t, leftOut)
			assert.Equal(t, tc.want, slice.Endpoints[0].Conditions)
			assert.Equal(t, []string{"10.0.0.5"}, slice.Endpoints[0].Addresses)
		})
	}
}

// One endpoint does not keep the others from being updated: a dead one would stay ready.
func TestAnEndpointWithoutTranslationIsLeftOut(t *testing.T) {
	source := endpoint()
	source.Addresses = []string{"10.0.0.99"}
	slice, leftOut := Forge(newShadow(source, endpoint()), true, remapped{})
	assert.Equal(t, []string{`translating address "10.0.0.99": no translation`}, leftOut)
	require.Len(t, slice.Endpoints, 1)
	assert.Equal(t, []string{"10.71.0.5"}, slice.Endpoints[0].Addresses)
}

func TestForgeEmptySlice(t *testing.T) {
	slice, leftOut := Forge(newShadow(), true, address.Identity{})
	assert.Empty(t, leftOut)
	assert.Empty(t, slice.Endpoints)
}

func cluster(networking bool, network, apiServer liqocorev1beta1.ConditionStatusType) *liqocorev1beta1.ForeignCluster {
	fc := &liqocorev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", UID: "fc-1"}, Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: "rome"},
	}
	fc.Status.Modules.Networking.Enabled = networking
	if network != "" {
		fc.Status.Modules.Networking.Conditions = []liqocorev1beta1.Condition{{Type: liqocorev1beta1.NetworkConnectionStatusCondition, Status: network}}
	}
	if apiServer != "" {
		fc.Status.Conditions = []liqocorev1beta1.Condition{{Type: liqocorev1beta1.APIServerStatusCondition, Status: apiServer}}
	}
	return fc
}

func TestIsReachable(t *testing.T) {
	const established, failed, none = liqocorev1beta1.ConditionStatusEstablished, liqocorev1beta1.ConditionStatusError, liqocorev1beta1.ConditionStatusNone
	tests := map[string]struct {
		cluster *liqocorev1beta1.ForeignCluster
		want    bool
	}{
		"no ForeignCluster":                     {nil, true},
		"a ForeignCluster without status":       {cluster(false, "", ""), true},
		"no networking module":                  {cluster(false, failed, established), true},
		"the network is established":            {cluster(true, established, established), true},
		"the network is down":                   {cluster(true, failed, established), false},
		"the network is not established yet":    {cluster(true, "", established), false},
		"the API server is down":                {cluster(true, established, failed), false},
		"the API server is down, no networking": {cluster(false, "", failed), false},
		"the API server is not probed":          {cluster(true, established, none), true},
		"the API server is pending":             {cluster(false, "", liqocorev1beta1.ConditionStatusPending), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, isReachable(tc.cluster)) })
	}
}
