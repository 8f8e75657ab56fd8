package shadowendpointslice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

func cluster(networking bool, network, apiServer liqocorev1beta1.ConditionStatusType) *liqocorev1beta1.ForeignCluster {
	fc := &liqocorev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "rome", UID: "fc-1"}, Spec: liqocorev1beta1.ForeignClusterSpec{ClusterID: "rome"},
	}
	fc.Status.Modules.Networking.Enabled = networking
	if network != "" {
		fc.Status.Modules.Networking.Conditions = []liqocorev1beta1.Condition{{Type: liqocorev1beta1.NetworkConnectionStatusCondition, Status: network}}
	}
	if apiServer != "" {
		fc.Status.Conditions = []liqocorev1beta1.Condition{{Type: liqocorev1beta1.APIServerStatusCondition, Status: apiServer}}
	}
	return fc
}

func TestIsReachable(t *testing.T) {
	const established, failed, none = liqocorev1beta1.ConditionStatusEstablished, liqocorev1beta1.ConditionStatusError, liqocorev1beta1.ConditionStatusNone
	tests := map[string]struct {
		cluster *liqocorev1beta1.ForeignCluster
		want    bool
	}{
		"no ForeignCluster":                     {nil, true},
		"a ForeignCluster without status":       {cluster(false, "", ""), true},
		"no networking module":                  {cluster(false, failed, established), true},
		"the network is established":            {cluster(true, established, established), true},
		"the network is down":                   {cluster(true, failed, established), false},
		"the network is not established yet":    {cluster(true, "", established), false},
		"the API server is down":                {cluster(true, established, failed), false},
		"the API server is down, no networking": {cluster(false, "", failed), false},
		"the API server is not probed":          {cluster(true, established, none), true},
		"the API server is pending":             {cluster(false, "", liqocorev1beta1.ConditionStatusPending), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, isReachable(tc.cluster)) })
	}
}
