package manager

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOptionsSayAllThatIsWrongAtOnce(t *testing.T) {
	require.NoError(t, (&Options{ClusterID: "rome", Namespace: "longshore", ShadowPodWorkers: 1}).Validate())
	err := (&Options{ClusterID: "Rome"}).Validate()
	for _, want := range []string{`--cluster-id: cluster ID "Rome"`, "--liqo-namespace is required", "--shadow-pod-ctrl-workers is 0"} {
		assert.ErrorContains(t, err, want)
	}
}
