package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

type object = map[string]any

// coveredService is a remote Service, applied with the fields that it has but for its
// cluster IP and the defaults of its port.
func coveredService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u", Labels: map[string]string{"a": "1"}},
		Spec: corev1.ServiceSpec{
			ClusterIP:                "10.0.0.1",
			Selector:                 map[string]string{"app": "web"},
			LoadBalancerSourceRanges: []string{"10.0.0.0/8"},
			TrafficDistribution:      ptr.To("PreferClose"),
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("http")},
				{Name: "dns", Port: 80, Protocol: corev1.ProtocolUDP},
			},
		},
	}
}

const coveredFields = `{
	"f:metadata":{"f:labels":{"f:a":{}}},
	"f:spec":{
		"f:selector":{}, "f:loadBalancerSourceRanges":{}, "f:trafficDistribution":{},
		"f:ports":{
			"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:appProtocol":{}},
			"k:{\"port\":80,\"protocol\":\"UDP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}}
		}
	}
}`

func managed(fields string, operation metav1.ManagedFieldsOperationType) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{
		{Manager: "another-writer", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:type":{}}}`)},
		{Manager: FieldManager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)},
	}
}

// config is what is applied to coveredService. A path that is set to nil is removed.
func config(alter func(meta, spec, tcp object)) object {
	meta := object{"name": "web", "namespace": "ns", "labels": object{"a": "1"}}
	tcp := object{"name": "http", "port": float64(80), "appProtocol": "http"}
	spec := object{
		"selector": object{"app": "web"}, "loadBalancerSourceRanges": []any{"10.0.0.0/8"}, "trafficDistribution": "PreferClose",
		"ports": []any{tcp, object{"name": "dns", "port": float64(80), "protocol": "UDP"}},
	}
	if alter != nil {
		alter(meta, spec, tcp)
	}
	return object{"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
}

func TestCover(t *testing.T) {
	tests := map[string]struct {
		alter func(meta, spec, tcp object)
		// there alters the remote object.
		there func(*corev1.Service)
		want  coverage
	}{
		"defaults of the provider are not a difference": {want: exact},
		"an explicit zero equals an absent field": {
			alter: func(_, _, tcp object) { tcp["nodePort"] = float64(0) }, want: exact,
		},
		"another value differs":        {alter: func(meta, _, _ object) { meta["labels"] = object{"a": "2"} }, want: differs},
		"a missing key differs":        {alter: func(meta, _, _ object) { meta["labels"] = object{"a": "1", "b": "2"} }, want: differs},
		"another list length differs":  {alter: func(_, spec, _ object) { spec["ports"] = []any{} }, want: differs},
		"a label no longer wanted":     {alter: func(meta, _, _ object) { delete(meta, "labels") }, want: covered},
		"a selector no longer wanted":  {alter: func(_, spec, _ object) { delete(spec, "selector") }, want: covered},
		"ranges no longer wanted":      {alter: func(_, spec, _ object) { delete(spec, "loadBalancerSourceRanges") }, want: covered},
		"a hint no longer wanted":      {alter: func(_, spec, _ object) { delete(spec, "trafficDistribution") }, want: covered},
		"appProtocol no longer wanted": {alter: func(_, _, tcp object) { delete(tcp, "appProtocol") }, want: covered},
		"a selector with a key less":   {alter: func(_, spec, _ object) { spec["selector"] = object{} }, want: differs},
		"a label of the provider is the provider's": {
			there: func(s *corev1.Service) { s.Labels["provider"] = "x" }, want: exact,
		},
		"a field of the provider is the provider's": {
			there: func(s *corev1.Service) { s.Spec.LoadBalancerIP = "10.1.1.1" }, want: exact,
		},
		"a key that the provider adds to a map which is replaced as a whole": {
			there: func(s *corev1.Service) {
				s.Spec.Selector["version"] = "2"
				// An update of such a map takes all of it over.
				s.ManagedFields[1].FieldsV1 = metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)
			}, want: differs,
		},
		"an object that was never applied": {
			there: func(s *corev1.Service) { s.ManagedFields = managed(coveredFields, metav1.ManagedFieldsOperationUpdate) }, want: covered,
		},
		"an object without managed fields": {
			there: func(s *corev1.Service) { s.ManagedFields = nil }, want: covered,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			remote := coveredService()
			remote.ManagedFields = managed(coveredFields, metav1.ManagedFieldsOperationApply)
			if tc.there != nil {
				tc.there(remote)
			}
			got, err := cover(remote, config(tc.alter))
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

// The managed fields do not name the fields of items of a list that is replaced as a whole.
func TestCoverOfAListThatIsReplacedAsAWhole(t *testing.T) {
	path := object{"path": "/", "pathType": "Prefix", "backend": object{"service": object{"name": "web", "port": object{"name": "http"}}}}
	http := object{"paths": []any{path}}
	tests := map[string]struct {
		rules []any
		want  coverage
	}{
		"the same rules":          {[]any{object{"host": "shop.example.com", "http": http}}, exact},
		"another host":            {[]any{object{"host": "other.example.com", "http": http}}, differs},
		"a host no longer wanted": {[]any{object{"http": http}}, covered},
		"paths no longer wanted":  {[]any{object{"host": "shop.example.com"}}, covered},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ingress := &networkingv1.Ingress{
				ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", ManagedFields: managed(`{"f:spec":{"f:rules":{}}}`, metav1.ManagedFieldsOperationApply)},
				Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: "shop.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
					HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
						Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
						Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
							Name: "web", Port: networkingv1.ServiceBackendPort{Name: "http"},
						}},
					}}},
				}}}},
			}
			got, err := cover(ingress, object{
				"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": object{"name": "web", "namespace": "ns"},
				"spec": object{"rules": tc.rules},
			})
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

// The cache keeps the managed fields of this reflection's applies.
func TestTheCacheKeepsTheManagedFieldsOfApplies(t *testing.T) {
	s := newStore(Kind{}, nil)
	applied := coveredService()
	applied.ManagedFields = managed(coveredFields, metav1.ManagedFieldsOperationApply)
	s.transform(applied)
	require.Len(t, applied.ManagedFields, 1)
	assert.Equal(t, FieldManager, applied.ManagedFields[0].Manager)
	updated := coveredService()
	updated.ManagedFields = managed(coveredFields, metav1.ManagedFieldsOperationUpdate)
	s.transform(updated)
	assert.Nil(t, updated.ManagedFields)
}

// What the local object loses, the remote one loses: while the engine runs and after a restart.
func TestAFieldThatIsNoLongerDesiredIsRemoved(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1", "old": "x", "older": "x"}))
	w := start(t, local, remote, maps{})
	w.remoteData(t, "settings", "1")
	remove := func(key string) {
		source, _ := get(t.Context(), local.WithWatch, "shop", "settings", &corev1.ConfigMap{})
		delete(source.Data, key)
		require.NoError(t, local.Update(t.Context(), source))
	}
	has := func(key string) bool {
		cm, _ := get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
		_, there := cm.Data[key]
		return there
	}
	remove("old")
	require.Eventually(t, func() bool { return !has("old") }, soon, tick)
	// A key of the provider's stays.
	cm, _ := get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
	cm.Data["other"] = "y"
	require.NoError(t, remote.Update(t.Context(), cm))

	w.end()
	remove("older")
	w = start(t, local, remote, maps{})
	require.Eventually(t, func() bool { return !has("older") }, soon, tick)
	assert.True(t, has("other"))

	// A start that changes nothing sends nothing.
	w.end()
	before := remote.count("patch ConfigMap")
	w = start(t, local, remote, maps{})
	w.fence(t, "fence")
	assert.Equal(t, before+1, remote.count("patch ConfigMap"), "only the fence")
}
