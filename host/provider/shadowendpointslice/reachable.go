package shadowendpointslice

import (
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// isReachable reports whether this cluster reaches the network and the API server of a consumer.
// Without ForeignCluster or networking module, the clusters are connected by other
// means and the network counts as established.
func isReachable(cluster *liqocorev1beta1.ForeignCluster) bool {
	if cluster == nil {
		return true
	}
	networking := &cluster.Status.Modules.Networking
	network := conditionStatus(networking.Conditions, liqocorev1beta1.NetworkConnectionStatusCondition)
	if networking.Enabled && network != liqocorev1beta1.ConditionStatusEstablished {
		return false
	}
	switch conditionStatus(cluster.Status.Conditions, liqocorev1beta1.APIServerStatusCondition) {
	case liqocorev1beta1.ConditionStatusEstablished, liqocorev1beta1.ConditionStatusNone:
		return true
	default:
		return false
	}
}

// conditionStatus returns the status of a condition, None when it is absent.
func conditionStatus(conditions []liqocorev1beta1.Condition, conditionType liqocorev1beta1.ConditionType) liqocorev1beta1.ConditionStatusType {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return conditions[i].Status
		}
	}
	return liqocorev1beta1.ConditionStatusNone
}

func originOf(shadow *offloadingv1beta1.ShadowEndpointSlice) liqocorev1beta1.ClusterID {
	return liqocorev1beta1.ClusterID(shadow.Labels[offloadingv1beta1.OriginLabel])
}
