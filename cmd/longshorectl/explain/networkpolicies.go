package explain

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/planner"
)

// warnings returns what is no problem of an offloaded pod, and what its owner must know: NetworkPolicies that do
// not apply to it. Of those that the user may not read, there is no warning.
func warnings(ctx context.Context, here *cluster.Cluster, o *planner.Observed) []string {
	if !planner.IsVirtual(o.Node) {
		return nil
	}
	inventory := planner.NewInventory(true)
	policies := networkingv1.SchemeGroupVersion.WithResource("networkpolicies")
	err := cluster.Select(ctx, here, policies, here.Namespace, metav1.ListOptions{}, inventory.AddNetworkPolicy)
	warning := inventory.DescribeNetworkPolicies(o.Pod, o.Node.Labels[liqocorev1beta1.RemoteClusterIDLabel])
	if err != nil || warning == "" {
		return nil
	}
	return []string{warning}
}
