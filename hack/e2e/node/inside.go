package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/hack/e2e/isolate"
)

// Roles of this program in a node: the first process, which reaps orphans, and the supervisor,
// which starts all else.
const (
	RoleFirst      = "node-first"
	RoleSupervisor = "node-supervisor"
)

const (
	startTimeout = 2 * time.Minute
	poll         = 50 * time.Millisecond
)

// First is the first process of a node. It returns the exit code.
func First() (int, error) {
	if err := isolate.Enter(); err != nil {
		return 1, err
	}
	// Sockets of containerd and its shims, the state of runc and the lock of iptables.
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return 1, fmt.Errorf("mounting /run: %w", err)
	}
	supervisor := isolate.Again(RoleSupervisor)
	supervisor.Stdin, supervisor.Stdout, supervisor.Stderr = os.Stdin, os.Stdout, os.Stderr
	return isolate.Reap(supervisor)
}

// answer is the supervisor's answer to a line of its input.
type answer struct {
	Error string `json:"error,omitempty"`
}

// Supervise reads the configuration, the first line of in, starts the node, and then does what
// each further line says: "kill NAME" or "start NAME". It returns when in ends.
func Supervise(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() {
		return errors.New("the configuration of the node is missing")
	}
	s := &supervisor{processes: map[string]*process{}}
	if err := json.Unmarshal(lines.Bytes(), &s.config); err != nil {
		return fmt.Errorf("decoding the configuration of the node: %w", err)
	}
	err := s.startAll(ctx)
	for {
		reply := answer{}
		if err != nil {
			reply.Error = err.Error()
		}
		if err := json.NewEncoder(out).Encode(reply); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
		if !lines.Scan() {
			return nil
		}
		err = s.do(ctx, lines.Text())
	}
}

// supervisor starts the processes of the node.
type supervisor struct {
	config    Config
	cluster   *testplane.Cluster
	processes map[string]*process
}

// do does what a line says.
func (s *supervisor) do(ctx context.Context, line string) error {
	verb, name, _ := strings.Cut(line, " ")
	process := s.processes[name]
	switch {
	case name == "control-plane" && verb == "kill":
		return s.cluster.Crash()
	case name == "control-plane" && verb == "start":
		return s.cluster.Restart(ctx)
	case process == nil:
		return fmt.Errorf("no process %q", name)
	case verb == "kill":
		return process.kill()
	case verb == "start":
		return process.start()
	default:
		return fmt.Errorf("unknown command %q", line)
	}
}

func (s *supervisor) startAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, step := range []func(context.Context) error{
		s.configureNetwork, s.startControlPlane, s.startContainerd, s.importImages, s.startKubelet, s.startProxy,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *supervisor) configureNetwork(ctx context.Context) error {
	c := &s.config
	commands := [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", c.Address + "/" + strconv.Itoa(c.PrefixLength), "dev", Interface},
		{"link", "set", Interface, "up"},
		// Packets to a ClusterIP need a route before kube-proxy's rules see them.
		{"route", "add", "default", "via", c.Gateway},
	}
	for cidr, via := range c.Routes {
		commands = append(commands, []string{"route", "add", cidr, "via", via})
	}
	for _, args := range commands {
		if err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	settings := map[string]string{"ipv4/ip_forward": "1"}
	// Replies of a pod to another of the same bridge pass kube-proxy's rules, where the kernel
	// can do that.
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil {
		settings["bridge/bridge-nf-call-iptables"] = "1"
	}
	for name, value := range settings {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o600); err != nil {
			return fmt.Errorf("setting net/%s: %w", name, err)
		}
	}
	return nil
}

func (s *supervisor) startControlPlane(ctx context.Context) error {
	cluster, err := testplane.Start(ctx, testplane.Options{
		Name: s.config.Name, Dir: s.config.path("control-plane"), Binary: s.config.TestPlane,
		Address: s.config.Address, Routed: true, ServiceCIDR: s.config.ServiceCIDR, PodCIDR: s.config.PodCIDR,
		ManagerArgs: s.config.ManagerArgs,
	})
	if err != nil {
		return err
	}
	s.cluster = cluster
	return nil
}

func (s *supervisor) startContainerd(ctx context.Context) error {
	plugins := ""
	for _, dir := range cniPluginDirs {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			plugins = dir
			break
		}
	}
	if plugins == "" {
		return fmt.Errorf("no CNI plugins in %v: run hack/e2e/install-packages.sh", cniPluginDirs)
	}
	cni, err := encode(s.config.cniConfig())
	if err != nil {
		return err
	}
	err = errors.Join(
		s.write("cni/10-pods.conflist", cni),
		s.write("containerd.toml", []byte(s.config.containerdConfig(plugins))),
	)
	if err != nil {
		return err
	}
	if err := s.start("containerd", "containerd", "--config", s.config.path("containerd.toml")); err != nil {
		return err
	}
	return s.until(ctx, "containerd", func() error { return run(ctx, "ctr", "-a", containerdSocket, "version") })
}

func (s *supervisor) importImages(ctx context.Context) error {
	for _, image := range s.config.Images {
		if err := run(ctx, "ctr", "-a", containerdSocket, "-n", "k8s.io", "images", "import", image); err != nil {
			return err
		}
	}
	return nil
}

func (s *supervisor) startKubelet(_ context.Context) error {
	c := &s.config
	cgroup1, err := UsesCgroup1()
	if err != nil {
		return err
	}
	if err := createCgroup(c.CgroupRoot(), cgroup1); err != nil {
		return err
	}
	config, err := encode(c.kubeletConfig(s.cluster.CAFile(), cgroup1))
	if err != nil {
		return err
	}
	// The certificate of the kubelet serves as that of its server, too.
	certificate, key, err := s.cluster.IssueServingCert("system:node:"+c.Name, []string{"system:nodes"}, c.Address, c.Name)
	if err != nil {
		return err
	}
	kubeconfig, err := s.cluster.KubeconfigFor("", certificate, key)
	if err != nil {
		return err
	}
	err = errors.Join(s.write("kubelet.json", config), s.write("kubelet.crt", certificate),
		s.write("kubelet.key", key), s.write("kubelet.kubeconfig", kubeconfig))
	if err != nil {
		return err
	}
	return s.start("kubelet", c.TestPlane, "kubelet", "--config="+c.path("kubelet.json"), "--kubeconfig="+c.path("kubelet.kubeconfig"),
		"--hostname-override="+c.Name, "--node-ip="+c.Address, "--root-dir="+c.path("kubelet"), "--cert-dir="+c.path("kubelet-pki"))
}

func (s *supervisor) startProxy(_ context.Context) error {
	c := &s.config
	certificate, key, err := s.cluster.IssueClientCert("system:kube-proxy", nil)
	if err != nil {
		return err
	}
	kubeconfig, err := s.cluster.KubeconfigFor("", certificate, key)
	if err != nil {
		return err
	}
	config, err := encode(c.proxyConfig(c.path("proxy.kubeconfig")))
	if err != nil {
		return err
	}
	if err := errors.Join(s.write("proxy.json", config), s.write("proxy.kubeconfig", kubeconfig)); err != nil {
		return err
	}
	return s.start("kube-proxy", c.TestPlane, "kube-proxy", "--config="+c.path("proxy.json"))
}

// start starts a process for the first time.
func (s *supervisor) start(name, binary string, args ...string) error {
	p := &process{name: name, binary: binary, args: args, log: s.config.path("logs", name+".log")}
	s.processes[name] = p
	return p.start()
}

// until tries until it succeeds, as long as the process runs.
func (s *supervisor) until(ctx context.Context, name string, try func() error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-s.processes[name].done:
			return fmt.Errorf("%s ended: see %s", name, s.processes[name].log)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (%w)", name, err, ctx.Err())
		case <-tick.C:
		}
	}
}

func (s *supervisor) write(name string, content []byte) error {
	path := s.config.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("creating the folder of %s: %w", path, err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// run runs a command; the error holds its output.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
