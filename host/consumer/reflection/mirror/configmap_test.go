package mirror

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

func TestConfigMapsThatAreReplaced(t *testing.T) {
	object := func(value string, immutable bool) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{"k": value}, Immutable: ptr.To(immutable)}
	}
	testReplacements(t, define(configMap, ""), map[string]replacement[*corev1.ConfigMap]{
		"other content":                            {object("2", false), object("1", false), false},
		"immutable with other content (T47)":       {object("2", true), object("1", true), true},
		"immutable in the provider only":           {object("1", false), object("1", true), true},
		"immutable with the same content":          {object("1", true), object("1", true), false},
		"mutable in the provider, immutable so on": {object("2", true), object("1", false), false},
	})
}

func TestConfigMapNamesAndPolicies(t *testing.T) {
	tests := map[string]struct {
		local, remote string
		policy        offloadingv1beta1.ReflectionType
	}{
		"a ConfigMap keeps its name":                                {"settings", "settings", offloadingv1beta1.AllowList},
		"the root CA ConfigMap is renamed and reflected by default": {"kube-root-ca.crt", "kube-root-ca.crt.rome-a", engine.Explicit},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := define(configMap, "")
			assert.Equal(t, tc.remote, d.ToRemote(tc.local))
			assert.Equal(t, tc.local, d.ToLocal(tc.remote, nil))
			local := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: tc.local}, Data: map[string]string{"k": "v"}}
			policy, annotated := d.ReflectionPolicy(input(local, nil))
			assert.Equal(t, tc.policy, policy)
			assert.Same(t, local, annotated)
			got := &corev1.ConfigMap{}
			applied(t, d, input(local, nil), got)
			assert.Equal(t, tc.remote, got.Name)
			assert.Equal(t, local.Data, got.Data)
		})
	}
}
