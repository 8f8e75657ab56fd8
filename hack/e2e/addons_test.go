package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// installAddons gives each cluster DNS and metrics of its pods, as an administrator does before
// Longshore comes.
func (w *world) installAddons(t *testing.T) {
	for _, c := range []*cluster{w.rome, w.milan} {
		require.NoError(t, files.InstallAddons(t.Context(), c.name, c.node.Kubeconfig()))
	}
}
