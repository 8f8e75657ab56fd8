package foreigncluster

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	networkingv1beta1 "github.com/longshore-dev/longshore/host/apis/networking/v1beta1"
)

// networking returns the state of the networking module: it is enabled while the peer has a
// Configuration. Without one, addresses are not translated, and the state is that of a fabric that
// writes it itself, if there is one.
func networking(previous *liqocorev1beta1.Module, f *facts, now metav1.Time) liqocorev1beta1.Module {
	hadConfiguration := slices.ContainsFunc(previous.Conditions, func(c liqocorev1beta1.Condition) bool {
		return c.Type == liqocorev1beta1.NetworkConfigurationStatusCondition
	})
	switch {
	case f.configuration == nil && hadConfiguration:
		return liqocorev1beta1.Module{}
	case f.configuration == nil:
		return *previous
	}
	conditions := keepTimes(previous.Conditions, []liqocorev1beta1.Condition{
		{
			Type: liqocorev1beta1.NetworkConfigurationStatusCondition, Status: liqocorev1beta1.ConditionStatusReady, Reason: reasonConfigurationPresent,
			Message: fmt.Sprintf("Addresses are translated by Configuration %s/%s.", f.configuration.Namespace, f.configuration.Name),
		},
		connectionCondition(f.connection),
	}, now)
	for _, c := range previous.Conditions {
		if c.Type != liqocorev1beta1.NetworkConfigurationStatusCondition && c.Type != liqocorev1beta1.NetworkConnectionStatusCondition {
			conditions = append(conditions, c)
		}
	}
	return liqocorev1beta1.Module{Enabled: true, Conditions: conditions}
}

func connectionCondition(connection *networkingv1beta1.Connection) liqocorev1beta1.Condition {
	condition := liqocorev1beta1.Condition{Type: liqocorev1beta1.NetworkConnectionStatusCondition}
	if connection == nil {
		condition.Status, condition.Reason = liqocorev1beta1.ConditionStatusNotReady, reasonConnectionMissing
		condition.Message = "The peer has no Connection. A fabric creates it, or you do where the networks are connected by other means."
		return condition
	}
	name := connection.Namespace + "/" + connection.Name
	switch connection.Status.Value {
	case networkingv1beta1.Connected:
		condition.Status, condition.Reason = liqocorev1beta1.ConditionStatusEstablished, reasonConnectionEstablished
		condition.Message = fmt.Sprintf("Connection %s is established.", name)
	case networkingv1beta1.Connecting, "":
		condition.Status, condition.Reason = liqocorev1beta1.ConditionStatusPending, reasonConnectionPending
		condition.Message = fmt.Sprintf("Connection %s is not established yet.", name)
	default:
		condition.Status, condition.Reason = liqocorev1beta1.ConditionStatusError, reasonConnectionError
		condition.Message = fmt.Sprintf("Connection %s has the status %q. Look at the fabric.", name, connection.Status.Value)
	}
	return condition
}
