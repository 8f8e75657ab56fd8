package configmap

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

func definition() *Definition {
	return New(Options{
		Origin: remote.Origin{HomeClusterID: "rome-1", ProviderClusterID: "milan", NodeName: "milan-node"},
		Policy: offloadingv1beta1.AllowList, Workers: 3,
	})
}

type option func(*corev1.ConfigMap)

func data(value string) option {
	return func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"k": value} }
}

func immutable(cm *corev1.ConfigMap) {
	yes := true
	cm.Immutable = &yes
}

func ours(cm *corev1.ConfigMap) {
	cm.Labels = map[string]string{offloadingv1beta1.OriginLabel: "rome-1", offloadingv1beta1.DestinationLabel: "milan"}
}

func object(name string, options ...option) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	for _, o := range options {
		o(cm)
	}
	return cm
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		local, remote *corev1.ConfigMap
		skipped       bool
		want          engine.Action
		replaced      bool
	}{
		"a new map is applied":                     {local: object("a", data("1")), want: engine.Apply{}},
		"a map is applied again":                   {local: object("a", data("2")), remote: object("a", ours, data("1")), want: engine.Apply{}},
		"a map that is gone is deleted":            {remote: object("a", ours), want: engine.DeleteRemote{}},
		"a map that is skipped is deleted":         {local: object("a"), remote: object("a", ours), skipped: true, want: engine.DeleteRemote{}},
		"a map that is skipped and absent is kept": {local: object("a"), skipped: true, want: engine.Keep{}},
		"a stranger's map is left alone":           {local: object("a"), remote: object("a"), want: engine.RecordEvent{}},
		"a stranger's immutable map too":           {local: object("a", data("1")), remote: object("a", immutable), want: engine.RecordEvent{}},
		"an immutable map with other content is made anew (T47)": {
			local: object("a", immutable, data("2")), remote: object("a", ours, immutable, data("1")), want: engine.Apply{}, replaced: true,
		},
		"an immutable map that is mutable now is made anew": {
			local: object("a", data("1")), remote: object("a", ours, immutable, data("1")), want: engine.Apply{}, replaced: true,
		},
		"an immutable map with the same content is applied": {
			local: object("a", immutable, data("1")), remote: object("a", ours, immutable, data("1")), want: engine.Apply{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := engine.Input{
				Key:     engine.Key{Namespace: "shop", Name: "a"},
				Facts:   engine.Facts{HomeClusterID: "rome-1", ProviderClusterID: "milan", RemoteNamespace: "shop-rome"},
				Skipped: tc.skipped,
			}
			if tc.local != nil {
				in.Local = tc.local
			}
			if tc.remote != nil {
				in.Remote = tc.remote
			}
			actions, err := definition().Decide(in)
			require.NoError(t, err)
			require.NotEmpty(t, actions)
			assert.IsType(t, tc.want, actions[0])
			if tc.local != nil && tc.remote != nil && tc.want == (engine.Apply{}) {
				assert.Equal(t, tc.replaced, definition().Replaces(tc.local, tc.remote))
			}
		})
	}
}

func TestWhatIsApplied(t *testing.T) {
	actions, err := definition().Decide(engine.Input{
		Key:         engine.Key{Namespace: "shop", Name: remote.RootCAConfigMapName},
		Facts:       engine.Facts{HomeClusterID: "rome-1", ProviderClusterID: "milan", RemoteNamespace: "shop-rome"},
		Local:       object(remote.RootCAConfigMapName, data("ca")),
		Labels:      map[string]string{"app": "web"},
		Annotations: map[string]string{"note": "x"},
	})
	require.NoError(t, err)
	body, err := json.Marshal(actions[0].(engine.Apply).Config)
	require.NoError(t, err)
	assert.JSONEq(t, `{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"ca"},"metadata":{
		"name":"kube-root-ca.crt.rome-a","namespace":"shop-rome","annotations":{"note":"x"},
		"labels":{"app":"web","offloading.liqo.io/origin":"rome-1","offloading.liqo.io/destination":"milan"}}}`, string(body))
}

func TestNamesAndPolicies(t *testing.T) {
	tests := map[string]struct {
		local, remote string
		policy        offloadingv1beta1.ReflectionType
	}{
		"a map keeps its name":                        {local: "settings", remote: "settings", policy: offloadingv1beta1.AllowList},
		"the root CA map is renamed, and always goes": {local: "kube-root-ca.crt", remote: "kube-root-ca.crt.rome-a", policy: engine.Explicit},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := definition()
			assert.Equal(t, tc.remote, d.ToRemote(tc.local))
			assert.Equal(t, tc.local, d.ToLocal(tc.remote))
			assert.Equal(t, tc.policy, d.ReflectionPolicy(object(tc.local)))
		})
	}
}

func TestResource(t *testing.T) {
	resource := definition().Resource()
	assert.Equal(t, "configmap", resource.Name)
	assert.Equal(t, 3, resource.Workers)
	assert.True(t, resource.Filter)
	assert.Nil(t, resource.LocalFields, "watched in mapped namespaces only")
}
