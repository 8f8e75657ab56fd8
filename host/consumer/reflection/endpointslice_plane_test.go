package reflection_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// sendsEndpoints waits until the EndpointSlice that the consumer's controller made for a
// Service is in the provider. The endpoint of the remote pod is not in it: the provider has an
// EndpointSlice of its own. Pods that start later change nothing in it, and cost no request.
func (r *rig) sendsEndpoints(t *testing.T) {
	t.Helper()
	ofService := client.MatchingLabels{discoveryv1.LabelServiceName: "settings"}
	planetest.Until(t, func(t planetest.T) bool {
		slices, shadows := &discoveryv1.EndpointSliceList{}, &offloadingv1beta1.ShadowEndpointSliceList{}
		require.NoError(t, r.rome.List(t.Context(), slices, client.InNamespace(local), ofService))
		require.NoError(t, r.milan.List(t.Context(), shadows, client.InNamespace(remoteNamespace), ofService))
		return len(slices.Items) == 1 && len(slices.Items[0].Endpoints) == 1 && len(shadows.Items) == 1 &&
			shadows.Items[0].Name == slices.Items[0].Name && len(shadows.Items[0].Spec.Template.Ports) == 1 &&
			len(shadows.Items[0].Spec.Template.Endpoints) == 0
	}, soon, tick)
}

// awaitsService gives the provider a Service of the same name: it must get no endpoint of the consumer, and
// no Ingress of the consumer may lead to it.
func (r *rig) awaitsService(t *testing.T) {
	t.Helper()
	ports := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "ledger"}, Spec: ports}
	require.NoError(t, r.milan.Create(t.Context(), theirs))
	for _, name := range []string{"ledger", "free"} {
		meta := metav1.ObjectMeta{Namespace: local, Name: name}
		slice := meta
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: name}
		for _, object := range []client.Object{
			&discoveryv1.EndpointSlice{
				ObjectMeta: slice, AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.9"}}},
			},
			&networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}},
			&corev1.Service{ObjectMeta: meta, Spec: ports},
		} {
			require.NoError(t, r.rome.Create(t.Context(), object))
		}
	}
	there := func(name string) (slice, ingress bool) {
		key := client.ObjectKey{Namespace: remoteNamespace, Name: name}
		return r.milan.Get(t.Context(), key, &offloadingv1beta1.ShadowEndpointSlice{}) == nil,
			r.milan.Get(t.Context(), key, &networkingv1.Ingress{}) == nil
	}
	require.Eventually(t, func() bool { slice, ingress := there("free"); return slice && ingress }, soon, tick)
	require.Eventually(t, func() bool { return r.events.has("ledger: FailedReflection: Service ledger") }, soon, tick)
	require.Eventually(t, func() bool {
		return r.events.has("ledger: ReflectionDisabled: Not reflected to cluster milan: it needs Service ledger")
	}, soon, tick)
	slice, _ := there("ledger")
	assert.False(t, slice, "their Service gets no endpoint")
	// It may have been sent before there was a Service here.
	require.Eventually(t, func() bool { _, ingress := there("ledger"); return !ingress }, soon, tick, "no Ingress leads to it")

	require.NoError(t, r.milan.Delete(t.Context(), theirs))
	// A resync does the same.
	require.NoError(t, r.rome.Patch(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "ledger"}},
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"again":"yes"}}}`))))
	require.Eventually(t, func() bool { slice, ingress := there("ledger"); return slice && ingress }, soon, tick)
	for _, name := range []string{"ledger", "free"} {
		meta := metav1.ObjectMeta{Namespace: local, Name: name}
		for _, object := range []client.Object{&discoveryv1.EndpointSlice{ObjectMeta: meta}, &networkingv1.Ingress{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}} {
			require.NoError(t, r.rome.Delete(t.Context(), object))
		}
		require.Eventually(t, func() bool { slice, ingress := there(name); return !slice && !ingress }, soon, tick)
	}
}
