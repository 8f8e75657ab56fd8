// Package clusters is the clusters rome and milan, each of one real node, with cluster DNS and
// metrics-server, for the tests and for `make demo NODES=real`: where their files are, what they
// need of the machine, and how Longshore is installed in them.
package clusters

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/longshore-dev/longshore/conformance/testplane/binary"
	"github.com/longshore-dev/longshore/hack/e2e/images"
	"github.com/longshore-dev/longshore/hack/e2e/node"
)

// Names of the clusters and of their nodes.
const (
	Consumer = "rome"
	Provider = "milan"
)

// The network of the nodes.
const (
	Gateway      = "10.201.0.1"
	PrefixLength = 24
)

// Network is the addresses of a cluster.
type Network struct{ Address, PodCIDR, ServiceCIDR, DNS string }

// Networks are those of both clusters.
var Networks = map[string]Network{
	Consumer: {"10.201.0.2", "10.202.0.0/24", "10.203.0.0/24", "10.203.0.10"},
	Provider: {"10.201.0.3", "10.204.0.0/24", "10.205.0.0/24", "10.205.0.10"},
}

var (
	//go:embed dns.yaml
	dns string
	//go:embed metrics.yaml
	metrics string
)

// Files is where the files are.
type Files struct {
	// Root is the clone, State the folder of the data of a run.
	Root, State string
}

// Image is the archive with the image of this clone.
func (f Files) Image() string { return filepath.Join(f.Root, "dist", "e2e", "longshore-e2e.tar") }

// Longshorectl is the command of that name.
func (f Files) Longshorectl() string { return filepath.Join(f.Root, "bin", "longshorectl") }

// Current is the release of this clone.
func (f Files) Current() Release {
	return Release{Chart: filepath.Join(f.Root, "charts", "longshore"), Tag: "e2e"}
}

// Previous is the release of an older commit, which hack/e2e/previous.sh builds.
func (f Files) Previous() Release {
	return Release{Chart: filepath.Join(f.previous(), "chart"), Tag: "previous"}
}

func (f Files) previous() string { return filepath.Join(f.Root, "dist", "e2e", "previous") }

func (f Files) images() string { return filepath.Join(f.State, "images") }

// Kubectl returns a command of kubectl with a kubeconfig.
func (f Files) Kubectl(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(f.State, "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
}

// Config returns the configuration of a cluster's node, whose data is in a folder of f.State.
// Plain routes to the pods of the other cluster stand in for a network fabric.
func (f Files) Config(folder, name string) (node.Config, error) {
	dir, err := filepath.Abs(filepath.Join(f.State, folder, name))
	if err != nil {
		return node.Config{}, fmt.Errorf("resolving the folder of %s: %w", name, err)
	}
	n := Networks[name]
	config := node.Config{
		Name: name, Dir: dir, Address: n.Address, Gateway: Gateway, PrefixLength: PrefixLength,
		PodCIDR: n.PodCIDR, ServiceCIDR: n.ServiceCIDR, ClusterDNS: n.DNS, Routes: map[string]string{},
		TestPlane: os.Getenv(binary.Environment), Pause: images.Pause,
	}
	for other, n := range Networks {
		if other != name {
			config.Routes[n.PodCIDR] = n.Address
		}
	}
	archives := []string{f.Image()}
	for _, pattern := range []string{f.images() + "/*.tar", f.previous() + "/*.tar"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return node.Config{}, fmt.Errorf("listing the images: %w", err)
		}
		archives = append(archives, found...)
	}
	for _, archive := range archives {
		path, err := filepath.Abs(archive)
		if err != nil {
			return node.Config{}, fmt.Errorf("resolving %s: %w", archive, err)
		}
		config.Images = append(config.Images, path)
	}
	return config, nil
}

// CheckMachine returns an error that names all that is missing: root, commands, and files of
// which the values say which target of make makes them.
func CheckMachine(files map[string]string) error {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "iptables", "mount", "nsenter"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, "the command "+name)
		}
	}
	for path, target := range files {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, fmt.Sprintf("%s (made by `make %s`)", filepath.Clean(path), target))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("clusters with real nodes need %s: run make as root", strings.Join(missing, ", "))
	}
	return nil
}

// Prepare removes what an earlier run left, and builds the images. folders are those that
// Config is asked for.
func (f Files) Prepare(ctx context.Context, folders ...string) error {
	testPlane, err := binary.Locate(ctx)
	if err != nil {
		return err
	}
	if err := os.Setenv(binary.Environment, testPlane); err != nil {
		return fmt.Errorf("setting %s: %w", binary.Environment, err)
	}
	if err := f.RemoveCgroups(folders...); err != nil {
		return fmt.Errorf("%w: does an earlier run still end? Try again", err)
	}
	if err := os.RemoveAll(f.State); err != nil {
		return fmt.Errorf("removing the files of the last run: %w", err)
	}
	if err := os.MkdirAll(f.images(), 0o700); err != nil {
		return fmt.Errorf("creating the folder of images: %w", err)
	}
	if _, err := images.Build(ctx, filepath.Join(f.Root, "hack", "e2e", "images"), f.images()); err != nil {
		return err
	}
	// The name of the program is what it is.
	if err := os.Symlink(testPlane, filepath.Join(f.State, "kubectl")); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	return nil
}

// RemoveCgroups removes the cgroups of clusters that have ended.
func (f Files) RemoveCgroups(folders ...string) error {
	var errs []error
	for _, folder := range folders {
		for name := range Networks {
			config, err := f.Config(folder, name)
			if err != nil {
				return err
			}
			errs = append(errs, node.RemoveCgroup(config.CgroupRoot()))
		}
	}
	return errors.Join(errs...)
}

// InstallAddons installs cluster DNS and metrics-server in a cluster, and waits until they serve.
func (f Files) InstallAddons(ctx context.Context, name, kubeconfig string) error {
	manifests := strings.ReplaceAll(dns, "CLUSTER_IP", Networks[name].DNS) + "---\n" + metrics
	apply := f.Kubectl(ctx, kubeconfig, "apply", "-f", "-")
	apply.Stdin = strings.NewReader(manifests)
	if _, err := Output(apply); err != nil {
		return err
	}
	for _, wait := range [][]string{
		{"-n", "kube-system", "rollout", "status", "deployment/dns", "--timeout=2m"},
		{"-n", "kube-system", "rollout", "status", "deployment/metrics-server", "--timeout=2m"},
		{"wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=2m"},
	} {
		if _, err := Output(f.Kubectl(ctx, kubeconfig, wait...)); err != nil {
			return err
		}
	}
	return nil
}

// Output returns the standard output of a command; the error holds all that it printed.
func Output(command *exec.Cmd) (string, error) {
	var out, messages bytes.Buffer
	command.Stdout, command.Stderr = &out, &messages
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("running %s: %w\n%s%s", strings.Join(command.Args, " "), err, out.String(), messages.String())
	}
	return out.String(), nil
}
