package manager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/app/process"
)

func TestValidateReturnsEveryInvalidOption(t *testing.T) {
	require.NoError(t, (&Options{Options: process.Options{ClusterID: "rome", Namespace: "longshore"}, ShadowPodWorkers: 1, ShadowEndpointSliceWorkers: 1}).Validate())
	err := (&Options{Options: process.Options{ClusterID: "Rome"}, ResyncPeriod: -time.Hour, PingInterval: time.Second, PodSecurityLevel: "high", KubeletNetworkPolicy: "{", ReservedNamespaces: []string{"["}, ConsumerLimits: `{"perConsumer":{"services":1}}`, Peering: PeeringOptions{LimitsEnforcement: "none"}, Policies: PolicyOptions{ReportKeys: []string{"x"}}}).Validate()
	for _, want := range []string{
		`--cluster-id: invalid cluster ID "Rome"`, "--liqo-namespace is required", "--shadow-pod-ctrl-workers is 0", "--shadow-endpointslice-ctrl-workers is 0", "--resync-period is -1h0m0s",
		"--policy-report-key: reading public key 1", `parsing --pod-security-level "high": must be one of`, `--reserved-namespaces: parsing the pattern "["`, "--consumer-limits: parsing the limits of consumers: perConsumer has \"services\", which perNamespace does not have",
		"--foreign-cluster-ping-interval is 1s and --foreign-cluster-ping-timeout is 0s", `--vk-network-policy: parsing "{"`, `--default-limits-enforcement is "none": it must be None, Soft or Hard`,
	} {
		assert.ErrorContains(t, err, want)
	}
}
