// Package testplane starts real Kubernetes control planes as processes, for tests and for
// the demo: etcd, API server, controller manager and scheduler in one process per
// cluster, from the binary that package binary finds. TLS and RBAC are on; no root, no
// containers. Every cluster listens on a loopback address of its own.
//
// Tests and the demo need real admission, RBAC, scheduling and garbage collection, without containers,
// root, or downloads other than Go modules. A fake client agrees with whatever its author believes. The
// module conformance/testplane/kubernetes has the dependencies, so that no other module inherits them. What
// needs a mount namespace or an image is not tested here, but by hack/e2e.
//
// Nodes are simulated by kwok (StartKwok), only those with a label: a kwok that manages
// all nodes would also play the pods of a virtual node, and a broken offloading path
// would look healthy.
//
// # Webhooks
//
// There is no kube-proxy, so the API server cannot reach a ClusterIP. It does reach a
// webhook that listens on loopback in two ways, both tested:
//
//   - clientConfig.service names a Service of type ExternalName whose externalName is the
//     dotted address ("127.81.2.3"); the port is the one in clientConfig.service.port, and
//     the certificate must be for NAME.NAMESPACE.svc.
//   - clientConfig.url "https://127.81.2.3:9443/path"; the certificate must be for the IP.
//
// EndpointSlices with loopback addresses are refused by the API server, so there is no
// routing to endpoints. Several replicas behind one Service: package processnode.
package testplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/conformance/testplane/binary"
)

const (
	defaultServiceCIDR = "10.96.0.0/16"
	defaultPodCIDR     = "10.128.0.0/12"
	// nodeCIDRMaskSize leaves 4,094 pods on each of 256 nodes.
	nodeCIDRMaskSize = 20

	startTimeout = 2 * time.Minute
	// stopGrace is how long processes may take to end in order: 2 to 3 seconds are usual.
	stopGrace = 10 * time.Second
)

// Options configure a cluster. Name and Dir are required.
type Options struct {
	// Name is for messages and for the names inside kubeconfigs.
	Name string
	// Dir holds all state and logs of the cluster, created if needed. Starting again on
	// the same Dir continues with the same data and the same authorities.
	Dir string
	// Address is the cluster's own loopback address, 127.x.y.z. Empty: a free one.
	Address string
	// Port of the API server; 0: DefaultPort.
	Port int
	// Routed says that Address is one of a network interface, at which pods of real nodes and
	// other clusters reach the API server. It is announced as the endpoint of the Service
	// kubernetes. The address must be this cluster's alone.
	Routed bool
	// ServiceCIDR is the range of ClusterIPs. Without real nodes no packet is sent to them.
	ServiceCIDR string
	// PodCIDR is the range of pod addresses. Empty: one for 256 simulated nodes with 4,094
	// pods each. Else it is that of a single node.
	PodCIDR string
	// AuditLog is a path; not empty: every request of every user is logged there at
	// level Metadata when it is answered, one JSON object a line.
	AuditLog string
	// APIServerArgs, ManagerArgs and SchedulerArgs are added to the components' flags and override
	// ours. Feature gates go to APIServerArgs and apply to all components.
	APIServerArgs, ManagerArgs, SchedulerArgs []string
	// Binary is the test plane; empty: the built one (binary.Locate).
	Binary string
	// Detach lets the cluster outlive this process; StopLeftover ends it. Without it the
	// cluster ends when this process does, however that happens.
	Detach bool
	// Temporary removes Dir when the cluster ends, also with this process. Kill leaves it.
	Temporary bool
}

// Cluster is a running control plane. Its methods may be called concurrently.
type Cluster struct {
	// Name and Dir are those of the options.
	Name, Dir string

	options Options
	address *Address
	ca      *authority
	rest    *rest.Config

	mu      sync.Mutex
	control *process
	others  []*process // kwok
	stopped bool
	// recorded is what etcd had, by key. See Record.
	recorded map[string]entry
}

// Start starts a cluster and returns when it serves: the API server is ready and the
// default service account exists, so that pods can be created. When it fails, nothing
// is left running and the error ends with the last lines of the log.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	c, err := newCluster(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("starting cluster %q: %w", options.Name, err)
	}
	if err := c.start(ctx); err != nil {
		c.address.Release()
		return nil, fmt.Errorf("starting cluster %q: %w", options.Name, err)
	}
	return c, nil
}

func newCluster(ctx context.Context, options Options) (*Cluster, error) {
	if options.Name == "" || options.Dir == "" {
		return nil, errors.New("Options.Name and Options.Dir are needed")
	}
	setDefault(&options.ServiceCIDR, defaultServiceCIDR)
	setDefault(&options.Port, DefaultPort)
	if options.Routed && options.Address == "" {
		return nil, errors.New("Options.Routed needs Options.Address")
	}
	var err error
	// The control plane works in its directory, so paths must not be relative.
	if options.Dir, err = filepath.Abs(options.Dir); err != nil {
		return nil, fmt.Errorf("resolving Options.Dir: %w", err)
	}
	if options.AuditLog != "" {
		if options.AuditLog, err = filepath.Abs(options.AuditLog); err != nil {
			return nil, fmt.Errorf("resolving Options.AuditLog: %w", err)
		}
	}
	if options.Binary == "" {
		if options.Binary, err = binary.Locate(ctx); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the cluster's directory: %w", err)
	}
	if running := leftovers(options.Dir); len(running) > 0 {
		return nil, fmt.Errorf("processes of an earlier run still use %s: %s: stop that run first", options.Dir, describe(running))
	}
	c := &Cluster{Name: options.Name, Dir: options.Dir, options: options}
	if options.Address == "" {
		c.address, err = ReserveAddress()
	} else if options.Routed {
		c.address, err = holdAny(options.Address)
	} else {
		c.address, err = HoldAddress(options.Address)
	}
	if err != nil {
		return nil, err
	}
	c.options.Address = c.address.IP
	return c, nil
}

func setDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// start runs the control plane on a prepared cluster.
func (c *Cluster) start(ctx context.Context) error {
	if err := portFree(c.options.Address, c.options.Port); err != nil {
		return err
	}
	if err := c.writePKI(); err != nil {
		return err
	}
	args, err := c.controlPlaneArgs()
	if err != nil {
		return err
	}
	control, err := start(spawn{name: "control plane " + c.Name, binary: c.options.Binary, args: args,
		log: c.LogFile(), detach: c.options.Detach})
	if err != nil {
		return err
	}
	if err := c.remember(control); err != nil {
		return errors.Join(err, control.kill())
	}
	c.mu.Lock()
	c.control = control
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.waitServing(ctx, control); err != nil {
		return errors.Join(err, control.kill(), c.forget())
	}
	return nil
}

// Endpoint is host:port of the API server.
func (c *Cluster) Endpoint() string {
	return net.JoinHostPort(c.options.Address, strconv.Itoa(c.options.Port))
}

// Address is the cluster's loopback address.
func (c *Cluster) Address() string { return c.options.Address }

// LogFile is the log of the control plane. Logs of others are beside it.
func (c *Cluster) LogFile() string { return c.logFile("control-plane") }

// Diagnose describes the state of every process, with the last lines of its log.
func (c *Cluster) Diagnose(lines int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, p := range append([]*process{c.control}, c.others...) {
		parts = append(parts, p.diagnosis(lines))
	}
	return strings.Join(parts, "\n")
}

// PID is the process of the control plane; it changes with Restart.
func (c *Cluster) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.control.pid()
}

// Done is closed when the control plane has ended, asked to or not.
func (c *Cluster) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.control.done
}

// Stop ends all processes of the cluster in order, and at once when ctx ends. The
// directory stays. Stopping a stopped cluster does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	return c.end(func(p *process) error { return p.stop(ctx, stopGrace) })
}

// Kill ends all processes of the cluster at once, as a crash would.
func (c *Cluster) Kill() error {
	return c.end((*process).kill)
}

func (c *Cluster) end(end func(*process) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	// kwok first: it would log the loss of its API server.
	for _, p := range append(slices.Clone(c.others), c.control) {
		if err := end(p); err != nil {
			errs = append(errs, err)
		}
	}
	c.others, c.stopped = nil, true
	c.address.Release()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping cluster %q: %w", c.Name, err)
	}
	return c.forget()
}

// Crash kills the control plane and leaves the rest running, Restart brings it back.
func (c *Cluster) Crash() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.control.kill()
}

// Restart starts the control plane again on its data, after Crash or a crash of its own.
// After Stop another process may have the address: Start on the same directory instead.
func (c *Cluster) Restart(ctx context.Context) error {
	c.mu.Lock()
	stopped := c.stopped
	c.mu.Unlock()
	if stopped {
		return fmt.Errorf("restarting cluster %q: it was stopped", c.Name)
	}
	select {
	case <-c.Done():
	default:
		return fmt.Errorf("restarting cluster %q: it still runs", c.Name)
	}
	if err := c.start(ctx); err != nil {
		return fmt.Errorf("restarting cluster %q: %w", c.Name, err)
	}
	return nil
}

func (c *Cluster) path(name string) string    { return filepath.Join(c.Dir, name) }
func (c *Cluster) pki(name string) string     { return filepath.Join(c.Dir, "pki", name) }
func (c *Cluster) logFile(name string) string { return filepath.Join(c.Dir, "logs", name+".log") }
