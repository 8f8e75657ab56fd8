package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/hack/e2e/clusters"
)

// install is `helm install longshore charts/longshore --wait`.
func (c *cluster) install(t *testing.T, r clusters.Release, values map[string]any) {
	t.Helper()
	c.requireHelm(t, clusters.Install(t.Context(), c.node, r, values))
}

// upgrade is what docs/howto/upgrade.md says: new CRDs, and then
// `helm upgrade longshore charts/longshore --reset-then-reuse-values`.
func (c *cluster) upgrade(t *testing.T, r clusters.Release) {
	t.Helper()
	c.kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", filepath.Join(r.Chart, "crds"))
	c.requireHelm(t, clusters.Upgrade(t.Context(), c.node, r))
}

// rollback is `helm rollback longshore`.
func (c *cluster) rollback(t *testing.T) {
	t.Helper()
	c.requireHelm(t, clusters.Rollback(c.node))
}

// test is `helm test longshore`.
func (c *cluster) test(t *testing.T) {
	t.Helper()
	c.requireHelm(t, clusters.Test(c.node))
}

// uninstall is `helm uninstall longshore --wait`.
func (c *cluster) uninstall(t *testing.T) {
	t.Helper()
	c.requireHelm(t, clusters.Uninstall(c.node))
}

func (c *cluster) requireHelm(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		require.NoError(t, err, "%s", c.kubectl(t, "-n", clusters.Namespace, "get", "pods,jobs,events", "-o", "wide"))
	}
}
