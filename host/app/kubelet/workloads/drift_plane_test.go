package workloads_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
)

const mirrored = "mirrored"

// oneOfEach returns an object of each mirrored kind.
func oneOfEach() []client.Object {
	meta, port := metav1.ObjectMeta{Namespace: "shop", Name: mirrored}, int32(80)
	backend := networkingv1.IngressServiceBackend{Name: mirrored, Port: networkingv1.ServiceBackendPort{Number: port}}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.7"}}},
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: mirrored}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": "1"}},
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": []byte("1")}},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}},
		&networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &backend}}},
		slice,
	}
}

// copies returns the objects that the provider has for those of oneOfEach, by their type.
func copies() []client.Object {
	return []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}, &networkingv1.Ingress{}, &offloadingv1beta1.ShadowEndpointSlice{}}
}

// driftRig is a namespace with one object of each mirrored kind.
type driftRig struct {
	*twoclusters.Clusters

	kubelet *twoclusters.Kubelet
}

// awaitCopies waits until the provider has the copies, or has none.
func (r *driftRig) awaitCopies(t *testing.T, exist bool) {
	t.Helper()
	for _, object := range copies() {
		planetest.Until(t, func(t planetest.T) bool {
			err := r.Milan.Get(t.Context(), client.ObjectKey{Namespace: twoclusters.Remote("shop"), Name: mirrored}, object)
			require.NoError(t, client.IgnoreNotFound(err))
			return (err == nil) == exist
		}, soon, tick, "%T exists: %t", object, exist)
	}
}

// deleteCopies deletes the copies and waits until each is created again.
func (r *driftRig) deleteCopies(t *testing.T) {
	for _, object := range copies() {
		key := client.ObjectKey{Namespace: twoclusters.Remote("shop"), Name: mirrored}
		require.NoError(t, r.Milan.Get(t.Context(), key, object))
		before := object.GetUID()
		require.NoError(t, r.Milan.Delete(t.Context(), object))
		planetest.Until(t, func(t planetest.T) bool {
			return r.Milan.Get(t.Context(), key, object) == nil && object.GetUID() != before
		}, soon, tick, "%T is created again", object)
	}
}

func (r *driftRig) remoteData(t planetest.T) *corev1.ConfigMap {
	t.Helper()
	found := &corev1.ConfigMap{}
	require.NoError(t, r.Milan.Get(t.Context(), client.ObjectKey{Namespace: twoclusters.Remote("shop"), Name: mirrored}, found))
	return found
}

// Copies that change in the provider are reverted, a controller of the provider that fights with the
// virtual kubelet is reported and slowed down, and a kind with 0 workers is removed from the
// provider.
func TestDriftFightsAndDisabledKinds(t *testing.T) {
	c := twoclusters.Start(t, "shop")
	r := &driftRig{Clusters: c, kubelet: c.StartKubelet(twoclusters.KubeletOptions{})}
	unmanaged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: twoclusters.Remote("shop"), Name: "unmanaged"}}
	c.Create(c.Milan, unmanaged)
	locals := oneOfEach()
	c.Create(c.Rome, locals...)
	r.awaitCopies(t, true)
	t.Run("a deleted copy is created again", r.deleteCopies)
	t.Run("a fight is reported on the local object, with few reverts", func(t *testing.T) { r.fight(t, locals[0]) })
	t.Run("a kind with 0 workers is removed, and what is not managed stays", r.disable)
}

// fight changes the remote ConfigMap whenever it was reverted.
func (r *driftRig) fight(t *testing.T, local client.Object) {
	rounds := 0
	planetest.Until(t, func(t planetest.T) bool {
		if found := r.remoteData(t); found.Data["k"] == "1" {
			found.Data["k"] = "other"
			if r.Milan.Update(t.Context(), found) == nil {
				rounds++
			}
		}
		events := &corev1.EventList{}
		require.NoError(t, r.Rome.List(t.Context(), events, client.InNamespace("shop")))
		for i := range events.Items {
			event := &events.Items[i]
			if event.InvolvedObject.UID == local.GetUID() && event.Reason == engine.ReasonFailedReflection && strings.Contains(event.Message, "keeps changing") {
				return true
			}
		}
		return false
	}, soon, tick, "an event on the local ConfigMap")
	assert.GreaterOrEqual(t, rounds, 3, "it was reverted at first")
	assert.Less(t, rounds, 10, "reverts become rare")
	planetest.Until(t, func(t planetest.T) bool { return r.remoteData(t).Data["k"] == "1" }, soon, tick, "it is reverted when the fight is over")
}

func (r *driftRig) disable(t *testing.T) {
	none := map[string]int{"configmap": 0, "secret": 0, "service": 0, "ingress": 0, "endpointslice": 0}
	r.kubelet.Kill()
	r.kubelet.SetReflectionWorkers(none)
	r.kubelet.Start()
	r.awaitCopies(t, false)
	require.NoError(t, r.Milan.Get(t.Context(), client.ObjectKey{Namespace: twoclusters.Remote("shop"), Name: "unmanaged"}, &corev1.ConfigMap{}))
	for _, object := range oneOfEach() {
		require.NoError(t, r.Rome.Get(t.Context(), client.ObjectKeyFromObject(object), object), "the local %T", object)
	}
	r.kubelet.Kill()
	some := maps.Clone(none)
	for kind := range some {
		some[kind] = 1
	}
	r.kubelet.SetReflectionWorkers(some)
	r.kubelet.Start()
	r.awaitCopies(t, true)
}
