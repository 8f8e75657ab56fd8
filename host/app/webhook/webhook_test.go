package webhook

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/app/process"
)

func TestValidateReturnsEveryInvalidOption(t *testing.T) {
	good := Options{
		Options:    process.Options{ClusterID: "rome", Namespace: "longshore"},
		SecretName: "s", ServiceName: "w", ConfigurationName: "c", Port: 9443,
		DefaultOptions: client.ObjectKey{Namespace: "longshore", Name: "d"}, RuntimeClassName: "liqo", PodCIDRs: []string{"10.0.0.0/16"},
	}
	require.NoError(t, good.Validate())
	err := (&Options{Options: process.Options{ClusterID: "Rome"}, PodCIDRs: []string{"10.0.0.0"}, Port: 70000, ShutdownDelay: -1, PolicyNamespaces: []string{"Team"}, PolicyReportKeys: []string{"x"}, Affinity: `{"nodes":{}}`}).Validate()
	for _, want := range []string{
		`--cluster-id: invalid cluster ID "Rome"`, "--liqo-namespace is required", "--secret-name is required", "--service-name is required",
		"--configuration-name is required", "--vk-options-default-template is required", "--liqo-runtime-class is required",
		`parsing --podcidr "10.0.0.0"`, "--webhook-port is 70000", `parsing --vk-affinity "{\"nodes\":{}}"`, "--shutdown-delay is -1ns", `--policy-namespace: "Team" is not a valid namespace name`, "--policy-report-key: reading public key 1",
	} {
		assert.ErrorContains(t, err, want)
	}
}
