package replicator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/app/process"
)

func TestValidateReturnsEveryInvalidOption(t *testing.T) {
	require.NoError(t, (&Options{Options: process.Options{ClusterID: "rome", Namespace: "longshore"}, ResyncPeriod: time.Hour}).Validate())
	err := (&Options{ResyncPeriod: -time.Hour}).Validate()
	for _, want := range []string{"--cluster-id: a cluster ID is required", "--liqo-namespace is required", "--resync-period is -1h0m0s"} {
		assert.ErrorContains(t, err, want)
	}
}
