package reflection_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// removes takes fields away from Services, while the engine runs and while it does not.
func (r *rig) removes(t *testing.T) {
	t.Helper()
	const withoutFields = `[
		{"op":"remove","path":"/spec/selector"}, {"op":"remove","path":"/spec/loadBalancerSourceRanges"},
		{"op":"remove","path":"/spec/trafficDistribution"}, {"op":"remove","path":"/spec/ports/0/appProtocol"}
	]`
	for _, name := range []string{"running", "restarted"} {
		require.NoError(t, r.rome.Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: name},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
				LoadBalancerSourceRanges: []string{"10.0.0.0/8"}, TrafficDistribution: ptr.To("PreferClose"),
				Ports: []corev1.ServicePort{{Name: "http", Port: 80, AppProtocol: ptr.To("http")}},
			},
		}))
	}
	there := func(name string) *corev1.Service {
		service := &corev1.Service{}
		if r.milan.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: name}, service) != nil {
			return nil
		}
		return service
	}
	require.Eventually(t, func() bool { return there("running") != nil && there("restarted") != nil }, soon, tick)
	remove := func(name string) {
		require.NoError(t, r.rome.Patch(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: name}},
			client.RawPatch(types.JSONPatchType, []byte(withoutFields))))
	}
	removed := func(name string) func() bool {
		return func() bool {
			spec := there(name).Spec
			return len(spec.Selector) == 0 && len(spec.LoadBalancerSourceRanges) == 0 && spec.TrafficDistribution == nil && spec.Ports[0].AppProtocol == nil
		}
	}
	// What the provider adds is the provider's.
	require.NoError(t, r.milan.Patch(t.Context(), there("restarted"), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"provider":"x"}},"spec":{"loadBalancerIP":"10.1.1.1"}}`))))

	remove("running")
	require.Eventually(t, removed("running"), soon, tick)
	r.restart(t, func() { remove("restarted") })
	require.Eventually(t, removed("restarted"), soon, tick)
	kept := there("restarted")
	assert.Equal(t, "x", kept.Labels["provider"])
	assert.Equal(t, "10.1.1.1", kept.Spec.LoadBalancerIP)
	assert.NotZero(t, kept.Spec.Ports[0].NodePort)

	// A start at which nothing has changed sends nothing.
	before := r.out.snapshot()
	r.restart(t, func() {})
	require.NoError(t, r.rome.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "fence"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}))
	require.Eventually(t, func() bool { return there("fence") != nil }, soon, tick)
	assert.Equal(t, 1, r.out.snapshot()["PATCH services"]-before["PATCH services"], "only the fence")
}

// reclasses changes the load balancer class that the provider offers, which no update of a Service can.
func (r *rig) reclasses(t *testing.T) {
	t.Helper()
	there := func(class string) bool {
		service := &corev1.Service{}
		err := r.milan.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "restarted"}, service)
		return err == nil && ptr.Deref(service.Spec.LoadBalancerClass, "") == class
	}
	for _, class := range []string{"example.com/fast", "example.com/slow", ""} {
		r.restart(t, func() { r.class = class })
		require.Eventually(t, func() bool { return there(class) }, soon, tick, class)
	}
	var notices int
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	for _, event := range r.events.all {
		if strings.HasPrefix(event, "restarted: RemoteObjectReplaced: ") {
			notices++
		}
	}
	assert.Equal(t, 3, notices)
}
