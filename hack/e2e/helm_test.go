package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const longshoreNamespace = "longshore"

// helm returns a configuration of Helm for the cluster.
func (c *cluster) helm(t *testing.T) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(true).WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.QPS = -1
		return config
	})
	flags.KubeConfig, flags.Namespace = ptr.To(c.node.Kubeconfig()), ptr.To(longshoreNamespace)
	flags.CacheDir = ptr.To(filepath.Join(stateDir, c.name, "discovery"))
	config := action.NewConfiguration()
	require.NoError(t, config.Init(flags, longshoreNamespace, "secrets"))
	return config
}

// install is `helm install longshore charts/longshore --wait` with the image of this tree.
func (c *cluster) install(t *testing.T, values map[string]any) {
	t.Helper()
	chart, err := loader.Load(chartDir)
	require.NoError(t, err)
	install := action.NewInstall(c.helm(t))
	install.ReleaseName, install.Namespace, install.CreateNamespace = "longshore", longshoreNamespace, true
	install.WaitStrategy, install.Timeout = kube.StatusWatcherStrategy, soon
	values["clusterID"] = c.name
	values["image"] = map[string]any{"tag": "e2e", "pullPolicy": "Never"}
	_, err = install.RunWithContext(t.Context(), chart, values)
	require.NoError(t, err, "%s", c.kubectl(t, "-n", longshoreNamespace, "get", "pods,jobs,events", "-o", "wide"))
}

// test is `helm test longshore`.
func (c *cluster) test(t *testing.T) {
	t.Helper()
	tests := action.NewReleaseTesting(c.helm(t))
	tests.Timeout, tests.Namespace = soon, longshoreNamespace
	_, shutdown, err := tests.Run("longshore")
	require.NoError(t, err)
	require.NoError(t, shutdown())
}

// uninstall is `helm uninstall longshore --wait`.
func (c *cluster) uninstall(t *testing.T) {
	t.Helper()
	uninstall := action.NewUninstall(c.helm(t))
	uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, 2*soon
	_, err := uninstall.Run("longshore")
	require.NoError(t, err)
}
