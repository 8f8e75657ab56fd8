package secret

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func definition(tokens bool) *Definition {
	return New(Options{
		Origin: remote.Origin{HomeClusterID: "rome", ProviderClusterID: "milan", NodeName: "milan-node"},
		Policy: offloadingv1beta1.DenyList, Workers: 3, ReflectTokens: tokens,
	})
}

type option func(*corev1.Secret)

func data(value string) option {
	return func(s *corev1.Secret) { s.Data = map[string][]byte{"k": []byte(value)} }
}

func typed(t corev1.SecretType) option { return func(s *corev1.Secret) { s.Type = t } }

func immutable(s *corev1.Secret) {
	yes := true
	s.Immutable = &yes
}

func ours(s *corev1.Secret) {
	s.Labels = map[string]string{offloadingv1beta1.OriginLabel: "rome", offloadingv1beta1.DestinationLabel: "milan"}
}

func podToken(s *corev1.Secret) {
	s.Labels["offloading.liqo.io/service-account-name"] = "default"
	s.Annotations = map[string]string{"offloading.liqo.io/service-account-for-pod-name": "web"}
}

func object(options ...option) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Type: corev1.SecretTypeOpaque}
	for _, o := range options {
		o(s)
	}
	return s
}

func input(local, there *corev1.Secret) engine.Input {
	in := engine.Input{
		Key:   engine.Key{Namespace: "shop", Name: "a"},
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
	token := typed(corev1.SecretTypeServiceAccountToken)
	tests := map[string]struct {
		local, remote *corev1.Secret
		tokens        bool
		want          []engine.Action
		replaced      bool
	}{
		"a new secret is applied":            {local: object(data("1")), want: []engine.Action{engine.Apply{}}},
		"a secret is applied again":          {local: object(data("2")), remote: object(ours, data("1")), want: []engine.Action{engine.Apply{}}},
		"a secret that is gone is deleted":   {remote: object(ours), want: []engine.Action{engine.DeleteRemote{}}},
		"a stranger's secret is left alone":  {local: object(), remote: object(), want: []engine.Action{engine.RecordEvent{}}},
		"the tokens of a pod are not a copy": {remote: object(ours, podToken), want: []engine.Action{engine.Keep{}}},
		"a service account's token stays at home": {
			local: object(token), want: []engine.Action{engine.RecordEvent{}},
		},
		"a service account's token that went is withdrawn": {
			local: object(token), remote: object(ours), want: []engine.Action{engine.RecordEvent{}, engine.DeleteRemote{}},
		},
		"a service account's token is applied where it is needed": {
			local: object(token), tokens: true, want: []engine.Action{engine.Apply{}},
		},
		"a service account's token is opaque there": {
			local: object(token, data("1")), remote: object(ours, data("1")), tokens: true, want: []engine.Action{engine.Apply{}},
		},
		"an immutable secret with other content is made anew (T47)": {
			local: object(immutable, data("2")), remote: object(ours, immutable, data("1")), want: []engine.Action{engine.Apply{}}, replaced: true,
		},
		"a secret of another type is made anew": {
			local: object(typed(corev1.SecretTypeTLS)), remote: object(ours), want: []engine.Action{engine.Apply{}}, replaced: true,
		},
		"an immutable secret with the same content is applied": {
			local: object(immutable, data("1")), remote: object(ours, immutable, data("1")), want: []engine.Action{engine.Apply{}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			actions, err := definition(tc.tokens).Decide(input(tc.local, tc.remote))
			require.NoError(t, err)
			require.Len(t, actions, len(tc.want))
			for i := range tc.want {
				assert.IsType(t, tc.want[i], actions[i])
			}
			if tc.local != nil && tc.remote != nil && tc.want[0] == (engine.Apply{}) {
				assert.Equal(t, tc.replaced, definition(tc.tokens).Replaces(tc.local, tc.remote))
			}
		})
	}
}

func TestWhatIsApplied(t *testing.T) {
	in := input(object(data("v")), nil)
	in.Labels = map[string]string{"app": "web"}
	actions, err := definition(false).Decide(in)
	require.NoError(t, err)
	body, err := json.Marshal(actions[0].(engine.Apply).Config)
	require.NoError(t, err)
	assert.JSONEq(t, `{"apiVersion":"v1","kind":"Secret","type":"Opaque","data":{"k":"dg=="},"metadata":{
		"name":"a","namespace":"shop-rome",
		"labels":{"app":"web","offloading.liqo.io/origin":"rome","offloading.liqo.io/destination":"milan"}}}`, string(body))
}
