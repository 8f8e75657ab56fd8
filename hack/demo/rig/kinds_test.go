package rig_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// eventArrives counts an event of a remote pod up, as a kubelet does, and waits until the
// local pod has the event. It is called before and after a restart of the virtual kubelet.
func eventArrives(t *testing.T, r *rig.Rig) {
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
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: application.Namespace, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}},
	}
	require.NoError(t, r.Rome.Create(t.Context(), service))
	endpoints := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: application.Namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.7"}}},
		Ports: []discoveryv1.EndpointPort{{Port: &port}},
	}
	require.NoError(t, r.Rome.Create(t.Context(), endpoints))
	eventually(t, "the provider has the endpoint", func(t planetest.T) bool {
		slice := &discoveryv1.EndpointSlice{}
		return r.Milan.Get(t.Context(), client.ObjectKey{Namespace: "shop-rome", Name: name}, slice) == nil &&
			slice.Labels[offloadingv1beta1.ManagedByLabel] == offloadingv1beta1.ManagedByShadowEndpointSlice &&
			len(slice.Endpoints) == 1 && slice.Endpoints[0].Addresses[0] == "203.0.113.7"
	})
	require.NoError(t, r.Rome.Delete(t.Context(), endpoints))
	require.NoError(t, r.Rome.Delete(t.Context(), service))
}

// needsAreShown compares the demo's table with both clusters. An object that is missing in one of them
// is an error.
func needsAreShown(t *testing.T, r *rig.Rig) {
	list, err := r.Needs(t.Context(), application.Namespace)
	require.NoError(t, err)
	rows := map[string]rig.Need{}
	for _, row := range list {
		rows[row.Kind+" "+row.Name] = row
	}
	assert.Equal(t, rig.Need{Kind: "Ingress", Name: "storefront", Local: "shop.example.com", Remote: "shop.example.com"}, rows["Ingress storefront"])
	assert.Equal(t, rig.Need{Kind: "Endpoints", Name: "payments", Local: "203.0.113.7", Remote: "203.0.113.7"}, rows["Endpoints payments"])
	assert.Equal(t, "Bound (liqo)", rows["Claim data-database-0"].Local)
	assert.Regexp(t, `^Bound \((milan-disk|standard)-`, rows["Claim data-database-0"].Remote, "a volume of the provider")
	assert.Equal(t, rig.Need{Kind: "Token", Name: "monitor", Local: "lists 6 pods", Remote: "milan-processes"}, rows["Token monitor"])
	var addresses []string
	for _, p := range pods(t, r.Milan, "shop-rome", map[string]string{"app": "storefront"}) {
		addresses = append(addresses, p.Status.PodIP)
	}
	slices.Sort(addresses)
	assert.Equal(t, rig.Need{Kind: "Endpoints", Name: "storefront", Local: strings.Join(addresses, ", "), Remote: "2 pods"}, rows["Endpoints storefront"])

	// Without its right in rome, the token of the monitor is worth nothing, although it runs in milan.
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: application.Namespace, Name: "monitor"}}
	require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(binding), binding))
	require.NoError(t, r.Rome.Delete(t.Context(), binding.DeepCopy()))
	eventually(t, "the table has no such row any more, but an error", func(t planetest.T) bool {
		_, err := r.Needs(t.Context(), application.Namespace)
		return err != nil && strings.Contains(err.Error(), "403 Forbidden")
	})
	binding.ResourceVersion, binding.UID = "", ""
	require.NoError(t, r.Rome.Create(t.Context(), binding))
	require.NoError(t, r.Rome.WaitForPods(t.Context(), application.Namespace, 6, quiet))
	require.NoError(t, r.WaitForNeeds(t.Context(), application.Namespace, quiet))
}
