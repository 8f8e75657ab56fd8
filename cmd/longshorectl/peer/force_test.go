package peer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
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
				require.ErrorContains(t, err, "--although-it-answers")
				return
			}
			assert.NoError(t, err)
		})
	}
}

// A provider chooses what it answers. One that keeps what the end of the peering removes does not keep its
// consumer.
func TestAClusterThatAnswersIsLeft(t *testing.T) {
	for name, tc := range map[string]struct{ althoughItAnswers, want bool }{
		"a mistake keeps what waits for it": {false, false},
		"the administrator insists":         {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			fc := &liqocorev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
			fc.Status.Conditions = []liqocorev1beta1.Condition{{Type: liqocorev1beta1.APIServerStatusCondition, Status: liqocorev1beta1.ConditionStatusEstablished}}
			p := &Pair{Consumer: &admin.Cluster{Client: fakeclient.Builder(fc).Build()}}
			require.NoError(t, p.ForceSteps(fc, tc.althoughItAnswers)[0].Run(t.Context(), func(string) {}))
			require.NoError(t, p.Consumer.Get(t.Context(), client.ObjectKeyFromObject(fc), fc))
			assert.Equal(t, tc.want, fc.PermanentlyUnreachable())
		})
	}
}
