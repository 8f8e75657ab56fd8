package kubelet_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (r *rig) testConditionsRestored(t *testing.T) {
	conditions := func(node *corev1.Node) map[corev1.NodeConditionType]string {
		all := map[corev1.NodeConditionType]string{}
		for _, c := range node.Status.Conditions {
			all[c.Type] = string(c.Status) + " " + c.Reason + " " + c.Message
		}
		return all
	}
	node, err := r.node()
	require.NoError(t, err)
	want, changed := conditions(node), node.DeepCopy()
	for i := range changed.Status.Conditions {
		changed.Status.Conditions[i].Status, changed.Status.Conditions[i].Message = corev1.ConditionTrue, "Set by another client"
	}
	changed.Status.Conditions = append(changed.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated", Message: "RouteController failed to create a route",
	})
	want[corev1.NodeNetworkUnavailable] = "False NetworkUnchecked The virtual kubelet does not check the network"
	require.NoError(t, r.rome.Status().Patch(t.Context(), changed, client.MergeFrom(node)))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		node, err := r.node()
		require.NoError(c, err)
		assert.Equal(c, want, conditions(node))
	}, soon, tick)
	r.awaitEvent("ForeignCondition", "Its reason: NoRouteCreated: RouteController failed to create a route")
}
