package service

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func definition() *Definition {
	return New(Options{
		Origin: remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-node"},
		Policy: offloadingv1beta1.DenyList, Workers: 3,
	})
}

type option func(*corev1.Service)

func clusterIP(ip string) option { return func(s *corev1.Service) { s.Spec.ClusterIP = ip } }

func typed(t corev1.ServiceType) option { return func(s *corev1.Service) { s.Spec.Type = t } }

func ours(s *corev1.Service) {
	s.Labels = map[string]string{offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.DestinationLabel: "milan"}
}

func object(options ...option) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1"},
	}
	for _, o := range options {
		o(s)
	}
	return s
}

func input(local, there *corev1.Service) engine.Input {
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
	headless := clusterIP(corev1.ClusterIPNone)
	tests := map[string]struct {
		local, remote *corev1.Service
		want          engine.Action
		replaced      bool
	}{
		"a new service is applied":                    {local: object(), want: engine.Apply{}},
		"a service is applied again":                  {local: object(), remote: object(ours, clusterIP("10.5.0.1")), want: engine.Apply{}},
		"a service that is gone is deleted":           {remote: object(ours), want: engine.DeleteRemote{}},
		"a stranger's service is left alone":          {local: object(), remote: object(), want: engine.RecordEvent{}},
		"a service that became headless is made anew": {local: object(headless), remote: object(ours), want: engine.Apply{}, replaced: true},
		"a headless service that got an IP too":       {local: object(), remote: object(ours, headless), want: engine.Apply{}, replaced: true},
		"a headless service is applied again":         {local: object(headless), remote: object(ours, headless), want: engine.Apply{}},
		"a service may become an external name": {
			local: object(typed(corev1.ServiceTypeExternalName), clusterIP("")), remote: object(ours, headless), want: engine.Apply{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			actions, err := definition().Decide(input(tc.local, tc.remote))
			require.NoError(t, err)
			require.NotEmpty(t, actions)
			assert.IsType(t, tc.want, actions[0])
			if tc.local != nil && tc.remote != nil && tc.want == (engine.Apply{}) {
				assert.Equal(t, tc.replaced, definition().Replaces(tc.local, tc.remote))
			}
		})
	}
}

func TestTheAPIServersServiceStaysAtHome(t *testing.T) {
	in := input(object(), nil)
	in.Key = engine.Key{Namespace: "default", Name: "kubernetes"}
	actions, err := definition().Decide(in)
	require.NoError(t, err)
	assert.IsType(t, engine.Keep{}, actions[0])
}

func TestWhatIsApplied(t *testing.T) {
	local := object(typed(corev1.ServiceTypeNodePort))
	local.Spec.Selector = map[string]string{"app": "web"}
	local.Spec.Ports = []corev1.ServicePort{
		{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP},
		{Name: "admin", Port: 81, TargetPort: intstr.FromString("admin"), Protocol: corev1.ProtocolTCP, NodePort: 30081},
	}
	actions, err := definition().Decide(input(local, nil))
	require.NoError(t, err)
	body, err := json.Marshal(actions[0].(engine.Apply).Config)
	require.NoError(t, err)
	var got struct {
		Metadata metav1.ObjectMeta
		Spec     struct {
			ClusterIP string
			Ports     []map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(body, &got))
	assert.Equal(t, "shop-rome", got.Metadata.Namespace)
	assert.Equal(t, "rome", got.Metadata.Labels[offloadingv1beta1.OriginLabel])
	assert.Empty(t, got.Spec.ClusterIP, "an address of the consumer means nothing there")
	require.Len(t, got.Spec.Ports, 2)
	assert.EqualValues(t, 0, got.Spec.Ports[0]["nodePort"], "an explicit zero (T46)")
	assert.NotContains(t, got.Spec.Ports[1], "nodePort", "the provider's allocation stays (T46)")
}
