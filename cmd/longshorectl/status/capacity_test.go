package status

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// problemRow is a change of a healthy cluster, and the one problem that it makes; an empty message for none.
type problemRow struct {
	change         func(*snapshot)
	actor, message string
}

func checkProblems(t *testing.T, rows map[string]problemRow) {
	t.Helper()
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			s := healthyCluster()
			tc.change(s)
			found := build(s).Problems
			if tc.message == "" {
				assert.Empty(t, found)
				return
			}
			// Pods that are not ready are a problem of their own.
			found = slices.DeleteFunc(found, func(p Problem) bool { return strings.Contains(p.Object, "Pods: ") })
			require.Len(t, found, 1)
			assert.Equal(t, tc.message, found[0].Message)
			assert.Equal(t, tc.actor, found[0].Actor)
			assert.NotEmpty(t, found[0].Action)
		})
	}
}

func TestProblemsOfCapacityAndPlacement(t *testing.T) {
	checkProblems(t, map[string]problemRow{
		"pods request more than a virtual node has": {func(s *snapshot) {
			for range 30 {
				s.pods = append(s.pods, corev1.Pod{Spec: podSpec("milan")})
			}
		}, "rome", "Its pods request more than it has: cpu 16 of 8."},
		"pods that no node of the provider takes hold capacity": {func(s *snapshot) {
			for _, name := range []string{"a", "b", "c", "d"} {
				pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: podSpec("milan")}
				pod.Status.Phase, pod.Status.Conditions = corev1.PodPending, []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
				s.pods = append(s.pods, pod)
			}
		}, "rome", "No node of the provider takes pods that hold cpu 2, memory 1Gi, pods 4 of it: shop/a, shop/b, shop/c and 1 more."},
		"a grant exceeds the Nodes": {func(s *snapshot) {
			s.realNodes.Items = []corev1.Node{{Status: corev1.NodeStatus{Allocatable: quantities("cpu", "2", "memory", "32Gi", "pods", "110")}}, {Status: corev1.NodeStatus{Allocatable: quantities("cpu", "2")}}}
		}, "rome", "It grants more than all Nodes of this cluster have: cpu 8 of 4."},
		"a grant of what no Node has": {func(s *snapshot) {
			s.slices.Items[1].Status.Resources = quantities("cpu", "1", "nvidia.com/gpu", "1")
			s.realNodes.Items = []corev1.Node{{Status: corev1.NodeStatus{Allocatable: quantities("cpu", "8")}}}
		}, "rome", "It grants more than all Nodes of this cluster have: nvidia.com/gpu 1 of 0."},
		"a grant is less than the Nodes have": {func(s *snapshot) {
			s.realNodes.Items = []corev1.Node{{Status: corev1.NodeStatus{Allocatable: quantities("cpu", "8", "memory", "32Gi", "pods", "110")}}}
		}, "", ""},
		"pods run where the strategy does not permit it": {func(s *snapshot) {
			s.offloadings.Items[0].Status.Conditions = []metav1.Condition{{Type: offloadingv1beta1.PodsFollowStrategyCondition, Status: metav1.ConditionFalse, Message: "Message."}}
		}, "rome", "Message."},
		"pods run where the strategy permits it": {func(s *snapshot) {
			s.offloadings.Items[0].Status.Conditions = []metav1.Condition{{Type: offloadingv1beta1.PodsFollowStrategyCondition, Status: metav1.ConditionTrue, Message: "Message."}}
		}, "", ""},
		"a slice without its labels": {func(s *snapshot) {
			s.slices.Items[0].Labels, s.slices.Items[0].Status = nil, authv1beta1.ResourceSliceStatus{}
		}, "rome", "It is not sent to a provider, because it lacks the labels liqo.io/remote-cluster-id=milan, liqo.io/remoteID=milan, liqo.io/replication=true. Set them: kubectl label --overwrite -n liqo-tenant-milan " +
			"resourceslices.authentication.liqo.io milan liqo.io/remote-cluster-id=milan liqo.io/remoteID=milan liqo.io/replication=true"},
	})
}
