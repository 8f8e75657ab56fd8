package peer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

func TestOnlyAClusterThatDoesNotAnswerIsLost(t *testing.T) {
	condition := func(kind liqocorev1beta1.ConditionType, status liqocorev1beta1.ConditionStatusType) []liqocorev1beta1.Condition {
		return []liqocorev1beta1.Condition{{Type: kind, Status: status}}
	}
	for name, tc := range map[string]struct {
		conditions []liqocorev1beta1.Condition
		wantErr    bool
	}{
		"a provider that answers":            {condition(liqocorev1beta1.APIServerStatusCondition, liqocorev1beta1.ConditionStatusEstablished), true},
		"a provider that does not":           {condition(liqocorev1beta1.APIServerStatusCondition, liqocorev1beta1.ConditionStatusError), false},
		"a consumer, which is not probed":    {nil, false},
		"its other conditions do not matter": {condition(liqocorev1beta1.NetworkConnectionStatusCondition, liqocorev1beta1.ConditionStatusEstablished), false},
	} {
		t.Run(name, func(t *testing.T) {
			fc := &liqocorev1beta1.ForeignCluster{}
			fc.Spec.ClusterID, fc.Status.Conditions = "milan", tc.conditions
			err := checkLost(fc)
			if tc.wantErr {
				require.ErrorContains(t, err, "longshorectl unpeer")
				return
			}
			assert.NoError(t, err)
		})
	}
}
