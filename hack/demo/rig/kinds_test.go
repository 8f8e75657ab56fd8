package rig_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// eventsArrive counts an event of a remote pod up, as a kubelet does, and waits until the
// local pod has the event. It is called before and after a restart of the virtual kubelet.
func eventsArrive(t *testing.T, r *rig.Rig) {
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "database-0.backoff"}}
	err := r.Milan.Get(t.Context(), client.ObjectKeyFromObject(event), event)
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	event.Count++
	event.LastTimestamp = metav1.Now()
	event.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop-rome", Name: "database-0"}
	event.Type, event.Reason, event.Message = corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container"
	if event.Count == 1 {
		require.NoError(t, r.Milan.Create(t.Context(), event))
	} else {
		require.NoError(t, r.Milan.Update(t.Context(), event))
	}
	eventually(t, "the local pod has the event", func(t planetest.T) bool {
		local := &corev1.Event{}
		return r.Rome.Get(t.Context(), client.ObjectKey{Namespace: application.Namespace, Name: event.Name}, local) == nil &&
			local.InvolvedObject.Name == "database-0" && local.Count == event.Count
	})
}

// endpointsArrive creates an endpoint outside of both clusters for a Service of its own.
func endpointsArrive(t *testing.T, r *rig.Rig) {
	name, port := "legacy", int32(5432)
	require.NoError(t, r.Rome.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: application.Namespace, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}},
	}))
	require.NoError(t, r.Rome.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: application.Namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.7"}}},
		Ports: []discoveryv1.EndpointPort{{Port: &port}},
	}))
	eventually(t, "the provider has the endpoint", func(t planetest.T) bool {
		slice := &discoveryv1.EndpointSlice{}
		return r.Milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, slice) == nil &&
			slice.Labels[offloadingv1beta1.ManagedByLabel] == offloadingv1beta1.ManagedByShadowEndpointSlice &&
			len(slice.Endpoints) == 1 && slice.Endpoints[0].Addresses[0] == "203.0.113.7"
	})
}
