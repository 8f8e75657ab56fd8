package clusters

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/hack/e2e/node"
)

// Namespace is that of Longshore.
const Namespace = "longshore"

const (
	releaseName = "longshore"
	helmTimeout = 2 * time.Minute
)

// Release is a chart and the tag of its image.
type Release struct{ Chart, Tag string }

func (r Release) image() map[string]any { return map[string]any{"tag": r.Tag, "pullPolicy": "Never"} }

// helm returns a configuration of Helm for a cluster.
func helm(n *node.Node) (*action.Configuration, error) {
	flags := genericclioptions.NewConfigFlags(true).WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.QPS = -1
		return config
	})
	flags.KubeConfig, flags.Namespace = ptr.To(n.Kubeconfig()), ptr.To(Namespace)
	flags.CacheDir = ptr.To(filepath.Join(n.Config.Dir, "discovery"))
	config := action.NewConfiguration()
	if err := config.Init(flags, Namespace, "secrets"); err != nil {
		return nil, fmt.Errorf("preparing Helm for %s: %w", n.Config.Name, err)
	}
	return config, nil
}

// Install is `helm install longshore CHART --wait`; the cluster's ID is its name.
func Install(ctx context.Context, n *node.Node, r Release, values map[string]any) error {
	chart, err := loader.Load(r.Chart)
	if err != nil {
		return fmt.Errorf("reading the chart: %w", err)
	}
	config, err := helm(n)
	if err != nil {
		return err
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = releaseName, Namespace, true
	install.WaitStrategy, install.Timeout = kube.StatusWatcherStrategy, helmTimeout
	values["clusterID"], values["image"] = n.Config.Name, r.image()
	if _, err := install.RunWithContext(ctx, chart, values); err != nil {
		return fmt.Errorf("helm install in %s: %w", n.Config.Name, err)
	}
	return nil
}

// Upgrade is `helm upgrade longshore CHART --reset-then-reuse-values`. The CRDs are the caller's.
func Upgrade(ctx context.Context, n *node.Node, r Release) error {
	chart, err := loader.Load(r.Chart)
	if err != nil {
		return fmt.Errorf("reading the chart: %w", err)
	}
	config, err := helm(n)
	if err != nil {
		return err
	}
	upgrade := action.NewUpgrade(config)
	upgrade.Namespace, upgrade.ResetThenReuseValues = Namespace, true
	upgrade.WaitStrategy, upgrade.Timeout = kube.HookOnlyStrategy, helmTimeout
	if _, err := upgrade.RunWithContext(ctx, releaseName, chart, map[string]any{"image": r.image()}); err != nil {
		return fmt.Errorf("helm upgrade in %s: %w", n.Config.Name, err)
	}
	return nil
}

// Rollback is `helm rollback longshore`.
func Rollback(n *node.Node) error {
	config, err := helm(n)
	if err != nil {
		return err
	}
	rollback := action.NewRollback(config)
	rollback.WaitStrategy, rollback.Timeout = kube.HookOnlyStrategy, helmTimeout
	if err := rollback.Run(releaseName); err != nil {
		return fmt.Errorf("helm rollback in %s: %w", n.Config.Name, err)
	}
	return nil
}

// Test is `helm test longshore`.
func Test(n *node.Node) error {
	config, err := helm(n)
	if err != nil {
		return err
	}
	tests := action.NewReleaseTesting(config)
	tests.Timeout, tests.Namespace = helmTimeout, Namespace
	_, shutdown, err := tests.Run(releaseName)
	if err != nil {
		return fmt.Errorf("helm test in %s: %w", n.Config.Name, err)
	}
	if err := shutdown(); err != nil {
		return fmt.Errorf("ending helm test in %s: %w", n.Config.Name, err)
	}
	return nil
}

// Uninstall is `helm uninstall longshore --wait`.
func Uninstall(n *node.Node) error {
	config, err := helm(n)
	if err != nil {
		return err
	}
	uninstall := action.NewUninstall(config)
	uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, 2*helmTimeout
	if _, err := uninstall.Run(releaseName); err != nil {
		return fmt.Errorf("helm uninstall in %s: %w", n.Config.Name, err)
	}
	return nil
}
