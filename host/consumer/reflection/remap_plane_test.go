package reflection_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// endsNamespace deletes what is in a remote namespace that is requested, as the provider does which deletes the
// namespace. The pods are not ready meanwhile, nothing is sent, and they run once the namespace is there again.
func (r *rig) endsNamespace(t *testing.T) {
	t.Helper()
	r.report(t, "The namespace is being deleted.")
	// A new pod tells that the virtual kubelet knows it.
	r.createPods(t, "held-", 1)
	held := &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "held-0"}, held) == nil &&
			held.Status.Reason == offloadingv1beta1.RemoteNamespaceTerminatingReason
	}, soon, tick)
	before := r.out.snapshot()
	require.NoError(t, r.milan.DeleteAllOf(t.Context(), &offloadingv1beta1.ShadowPod{}, client.InNamespace(remoteNamespace)))
	p := &corev1.Pod{}
	require.Eventually(t, func() bool {
		return r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "new-0"}, p) == nil &&
			p.Status.Reason == offloadingv1beta1.RemoteNamespaceTerminatingReason
	}, soon, tick)
	assert.Equal(t, corev1.PodRunning, p.Status.Phase, "a terminal phase would be final")
	assert.False(t, p.Status.ContainerStatuses[0].Ready)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			assert.Equal(t, corev1.ConditionFalse, c.Status)
		}
	}
	assert.Equal(t, before["POST shadowpods"], r.out.snapshot()["POST shadowpods"], "nothing is sent")
	require.Eventually(t, func() bool { return r.events.has("new-0: RemoteNamespaceTerminating") }, soon, tick)

	r.report(t, "")
	require.Eventually(t, func() bool {
		return r.rome.Get(t.Context(), client.ObjectKey{Namespace: local, Name: "new-0"}, p) == nil &&
			p.Status.Reason == "" && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Ready
	}, soon, tick, "it runs again")
	require.Eventually(t, func() bool { return r.events.has("new-0: RemotePodReplaced") }, soon, tick, "its containers began anew")
}

// report sets the message of the accepted mapping.
func (r *rig) report(t *testing.T, message string) {
	t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: provider}, nm))
	status := nm.Status.CurrentMapping[local]
	status.Message = message
	nm.Status.CurrentMapping[local] = status
	require.NoError(t, r.rome.Status().Update(t.Context(), nm))
}

// remap sets what the namespace is mapped to; "" unmaps it.
func (r *rig) remap(t *testing.T, to string) {
	t.Helper()
	nm := &offloadingv1beta1.NamespaceMap{}
	require.NoError(t, r.rome.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: provider}, nm))
	nm.Spec.DesiredMapping, nm.Status.CurrentMapping = nil, nil
	if to != "" {
		nm.Spec.DesiredMapping = map[string]string{local: to}
	}
	status := nm.Status
	require.NoError(t, r.rome.Update(t.Context(), nm))
	nm.Status = status
	if to != "" {
		nm.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{
			local: {RemoteNamespace: to, Phase: offloadingv1beta1.MappingAccepted},
		}
	}
	require.NoError(t, r.rome.Status().Update(t.Context(), nm))
}
