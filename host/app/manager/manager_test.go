package manager

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/app/process"
)

func TestOptionsSayAllThatIsWrongAtOnce(t *testing.T) {
	require.NoError(t, (&Options{Options: process.Options{ClusterID: "rome", Namespace: "longshore"}, ShadowPodWorkers: 1}).Validate())
	err := (&Options{Options: process.Options{ClusterID: "Rome"}}).Validate()
	for _, want := range []string{`--cluster-id: cluster ID "Rome"`, "--liqo-namespace is required", "--shadow-pod-ctrl-workers is 0"} {
		assert.ErrorContains(t, err, want)
	}
}
