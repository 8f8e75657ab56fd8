package reflection_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// interpose puts the proxy between the engine and the provider.
func (r *rig) interpose(t *testing.T) {
	t.Helper()
	proxy, err := faultproxy.Start(r.provider.Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	r.proxy = proxy
}

// readyIs sets the condition Ready of a pod, as a kubelet or the consumer's node
// controller does.
func readyIs(t *testing.T, c client.Client, namespace, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := `{"status":{"conditions":[{"type":"Ready","status":"` + string(status) + `"}]}}`
	require.NoError(t, c.Status().Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		client.RawPatch(types.StrategicMergePatchType, []byte(patch))))
}

// readiness returns the condition Ready of a local pod.
func (r *rig) readiness(t *testing.T, name string) func(corev1.ConditionStatus) func() bool {
	t.Helper()
	return func(want corev1.ConditionStatus) func() bool {
		return func() bool {
			p := &corev1.Pod{}
			if r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: name}, p) != nil {
				return false
			}
			for i := range p.Status.Conditions {
				if condition := &p.Status.Conditions[i]; condition.Type == corev1.PodReady {
					return condition.Status == want
				}
			}
			return false
		}
	}
}

// isReadyInCache reports whether the engine has seen that a local pod is ready, or not.
func (r *rig) isReadyInCache(name string, want corev1.ConditionStatus, touched string) func() bool {
	return func() bool {
		p, ok := r.engine.LocalObject("pod", local, name).(*corev1.Pod)
		if !ok || p.Annotations["touched"] != touched {
			return false
		}
		for i := range p.Status.Conditions {
			if condition := &p.Status.Conditions[i]; condition.Type == corev1.PodReady {
				return condition.Status == want
			}
		}
		return false
	}
}

// cut lets no packet through for a while. What was read before says nothing about how the
// pods are; when the link is back, the real state returns though the old watch hangs.
func (r *rig) cut(t *testing.T) {
	t.Helper()
	const worse, same = "web-2", "web-3"
	for _, name := range []string{worse, same} {
		require.Eventually(t, r.readiness(t, name)(corev1.ConditionTrue), soon, tick)
	}
	r.proxy.Cut(faultproxy.Blackhole)
	r.engine.Reachable(false)
	readyIs(t, r.milan, remoteNamespace, worse, corev1.ConditionFalse)
	for _, name := range []string{worse, same} {
		readyIs(t, r.rome, local, name, corev1.ConditionFalse)
		require.Eventually(t, r.readiness(t, name)(corev1.ConditionFalse), soon, tick)
	}
	// Events of the local pods, of which the engine makes decisions.
	for _, touched := range []string{"1", "2", "3"} {
		for _, name := range []string{worse, same} {
			require.NoError(t, r.rome.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: name}},
				client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"touched":"`+touched+`"}}}`))))
			require.Eventually(t, r.isReadyInCache(name, corev1.ConditionFalse, touched), soon, tick)
		}
	}
	// Each event was followed by a decision, but for the last, which may be under way.
	for _, name := range []string{worse, same} {
		assert.True(t, r.readiness(t, name)(corev1.ConditionFalse)(), "%s stays not ready while nothing is known", name)
	}

	r.proxy.Heal()
	r.engine.Reachable(true)
	require.Eventually(t, r.readiness(t, same)(corev1.ConditionTrue), soon, tick, "what runs is ready again")
	assert.True(t, r.readiness(t, worse)(corev1.ConditionFalse)(), "what became unready meanwhile is not")
	readyIs(t, r.milan, remoteNamespace, worse, corev1.ConditionTrue)
	require.Eventually(t, r.readiness(t, worse)(corev1.ConditionTrue), soon, tick)
}

// labels changes a label while the provider is away: it arrives when the provider is back,
// and no conflict is recorded.
func (r *rig) labels(t *testing.T) {
	t.Helper()
	r.proxy.Cut(faultproxy.Reset)
	before := r.out.snapshot()["PATCH shadowpods"]
	require.NoError(t, r.rome.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: local, Name: "web-4"}},
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"late":"x"}}}`))))
	require.Eventually(t, func() bool { return r.out.snapshot()["PATCH shadowpods"] >= before+4 }, soon, tick, "it is tried again and again")
	r.proxy.Heal()
	shadow := &offloadingv1beta1.ShadowPod{}
	require.Eventually(t, func() bool {
		return r.milan.Get(t.Context(), client.ObjectKey{Namespace: remoteNamespace, Name: "web-4"}, shadow) == nil && shadow.Labels["late"] == "x"
	}, soon, tick)
	for _, event := range r.events.failures() {
		assert.NotContains(t, event, "web-4")
	}
}
