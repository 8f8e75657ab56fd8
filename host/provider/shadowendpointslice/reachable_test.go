package shadowendpointslice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/provider"
)

func newShadow(endpoints ...discoveryv1.Endpoint) *offloadingv1beta1.ShadowEndpointSlice {
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
