package quota_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	forge "github.com/longshore-dev/longshore/host/forge/provider"
)

const tenantNamespace = "liqo-tenant-rome"

// grant creates a ResourceSlice of rome and its Quota of 4 CPUs.
func (p *provider) grant(name string) (*authv1beta1.ResourceSlice, *offloadingv1beta1.Quota) {
	p.t.Helper()
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: tenantNamespace}}
	slice.Spec.ConsumerClusterID = ptr.To(liqocorev1beta1.ClusterID("rome"))
	require.NoError(p.t, p.admin.Create(p.t.Context(), slice))
	q := newQuota(name+"-0123456789ab", "4", "10")
	q.Namespace = tenantNamespace
	require.NoError(p.t, controllerutil.SetControllerReference(slice, q, p.scheme))
	require.NoError(p.t, p.admin.Create(p.t.Context(), q))
	return slice, q
}

// TestPodsOfADeletedSliceCount has a consumer fill a slice, delete it, and create another one: with its pods, and with
// the pod of a deleted ShadowPod that does not end.
func TestPodsOfADeletedSliceCount(t *testing.T) {
	p := newProvider(t)
	require.NoError(t, p.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: tenantNamespace, Labels: map[string]string{liqocorev1beta1.RemoteClusterIDLabel: "rome", liqocorev1beta1.TenantNamespaceLabel: "true"},
	}}))
	require.NoError(t, p.admin.Create(t.Context(), newQuota(consumerUser, "1", "10"))) // for the probes
	p.startEnding()
	p.startReplica()
	p.startReplica()
	p.register()
	first, firstQuota := p.grant("first")
	asFirst, asSecond := p.as("first-0123456789ab"), p.as("second-0123456789ab")
	running, ending := shadowPod("running", "3"), shadowPod("ending", "1")
	planetest.Until(t, func(t planetest.T) bool { // The webhook learns of the Quota by its watch.
		return asFirst.Create(t.Context(), running) == nil
	}, soon, tick, "the first slice is granted")
	require.NoError(t, asFirst.Create(t.Context(), ending))
	pod := forge.Pod(ending)
	pod.Spec.NodeName, pod.Spec.TerminationGracePeriodSeconds = "node", ptr.To[int64](31536000)
	pod.Spec.AutomountServiceAccountToken = ptr.To(false)
	require.NoError(t, p.admin.Create(t.Context(), pod))
	require.NoError(t, asFirst.Delete(t.Context(), ending))
	require.NoError(t, p.admin.Delete(t.Context(), pod)) // The garbage collector does not run here.

	require.NoError(t, p.admin.Delete(t.Context(), first))
	_, second := p.grant("second")
	abandoned := func(cpu int64) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool {
			require.NoError(t, p.admin.Get(t.Context(), client.ObjectKeyFromObject(second), second))
			return second.Status.Abandoned.Cpu().Value() == cpu
		}, soon, tick, "abandoned pods hold %d CPUs", cpu)
	}
	fits := func(cpu string) {
		t.Helper()
		planetest.Until(t, func(t planetest.T) bool {
			for range 2 { // the replicas are asked in turn
				if asSecond.Create(t.Context(), shadowPod("probe", cpu), client.DryRunAll) != nil {
					return false
				}
			}
			return true
		}, soon, tick, "the second slice has room for %s CPUs", cpu)
	}
	refused := func(cpu string) {
		t.Helper()
		for range 2 {
			require.ErrorContains(t, asSecond.Create(t.Context(), shadowPod("web", cpu)), "by pods of ResourceSlices that are gone")
		}
	}
	abandoned(4) // before the garbage collector deletes the Quota, and afterwards
	require.NoError(t, p.admin.Delete(t.Context(), firstQuota))
	p.replaceReplicas(2)
	refused("1")

	require.NoError(t, p.consumer.Delete(t.Context(), running))
	abandoned(1)
	fits("3")
	refused("4")
	require.NoError(t, p.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	abandoned(0)
	fits("4")
	// The Quota of a slice that exists counts its own pods alone.
	p.grant("third")
	require.NoError(t, asSecond.Create(t.Context(), shadowPod("web", "4")))
	planetest.Until(t, func(t planetest.T) bool {
		return p.as("third-0123456789ab").Create(t.Context(), shadowPod("more", "4")) == nil
	}, soon, tick, "the third slice is granted beside it")
}
