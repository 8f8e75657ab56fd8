package rig

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane"
	"github.com/longshore-dev/longshore/host/peering/manual"
)

const (
	// Consumer and Provider are the demo's clusters.
	Consumer = "rome"
	Provider = "milan"
	// Namespace is Longshore's own.
	Namespace = "longshore"
	// Node is the virtual node in rome.
	Node = "milan"

	// ProcessNodeLabel marks, and taints, the nodes whose containers are local processes.
	ProcessNodeLabel = "longshore.dev/process-node"
)

// Pair is the demo's peering.
var Pair = manual.Pair{Consumer: Consumer, Provider: Provider}

// StartOptions configure both clusters.
type StartOptions struct {
	// Dir holds the clusters' data; LogDir the logs of Longshore's processes.
	Dir, LogDir string
	// Longshore is the server binary.
	Longshore string
	// SimulatedNodes is how many nodes kwok plays in the provider.
	SimulatedNodes int
	// PodsPerNode is the capacity of each of them.
	PodsPerNode string
	// Audit logs every request, for counting, to AuditLog.
	Audit bool
	// SchedulerArgs are added to the flags of both schedulers.
	SchedulerArgs []string
	// Step is called with the name of each step.
	Step func(string)
}

// Clusters are both clusters, running as children of this process.
type Clusters struct {
	Rome, Milan *Side
}

// Side is one of the clusters: its control plane, its process node, and a connection.
type Side struct {
	*Cluster
	Plane *testplane.Cluster
	// WebhookAddress is that of the webhook's Service.
	WebhookAddress *testplane.Address

	workers *workers
}

// StartClusters starts both clusters side by side. When it fails nothing is left running.
func StartClusters(ctx context.Context, options StartOptions) (*Clusters, error) {
	w := &Clusters{}
	var starting sync.WaitGroup
	var romeErr, milanErr error
	options.Step("starting two control planes")
	starting.Go(func() { w.Rome, romeErr = StartSide(ctx, Consumer, options) })
	starting.Go(func() { w.Milan, milanErr = StartSide(ctx, Provider, options) })
	starting.Wait()
	err := errors.Join(romeErr, milanErr)
	if err == nil {
		options.Step("simulating the provider's nodes")
		err = w.Milan.SimulateNodes(ctx, options)
	}
	if err != nil {
		return nil, errors.Join(err, w.Stop(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// Stop ends both clusters.
func (w *Clusters) Stop(ctx context.Context) error {
	var stopping sync.WaitGroup
	errs := make([]error, 2)
	for i, side := range []*Side{w.Rome, w.Milan} {
		if side != nil {
			stopping.Go(func() { errs[i] = side.Stop(ctx) })
		}
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// AuditLog is where a cluster's requests are logged when StartOptions.Audit is set.
func AuditLog(dir, cluster string) string { return filepath.Join(dir, cluster+"-audit.log") }

// StartSide starts one cluster. When it fails nothing is left running.
func StartSide(ctx context.Context, name string, options StartOptions) (*Side, error) {
	address, err := testplane.ReserveAddress()
	if err != nil {
		return nil, fmt.Errorf("finding an address for the webhook of %q: %w", name, err)
	}
	side := &Side{WebhookAddress: address}
	planeOptions := testplane.Options{Name: name, Dir: filepath.Join(options.Dir, name), SchedulerArgs: options.SchedulerArgs}
	if options.Audit {
		planeOptions.AuditLog = AuditLog(options.Dir, name)
	}
	if side.Plane, err = testplane.Start(ctx, planeOptions); err != nil {
		address.Release()
		return nil, err
	}
	if side.Cluster, err = New(name, side.Plane.RESTConfig()); err == nil {
		side.workers, err = startWorkers(ctx, side, options)
	}
	if err != nil {
		return nil, errors.Join(err, side.Stop(context.WithoutCancel(ctx)))
	}
	return side, nil
}

// Stop ends the cluster.
func (s *Side) Stop(ctx context.Context) error {
	var errs []error
	if s.workers != nil {
		errs = append(errs, s.workers.stop())
	}
	errs = append(errs, s.Plane.Stop(ctx))
	s.WebhookAddress.Release()
	return errors.Join(errs...)
}

// SimulateNodes adds nodes that kwok plays.
func (s *Side) SimulateNodes(ctx context.Context, options StartOptions) error {
	capacity := Capacity("500", "1000Gi", options.PodsPerNode)
	for i := range options.SimulatedNodes {
		node := testplane.FakeNode(fmt.Sprintf("%s-worker-%d", s.Name, i+1), capacity)
		if err := client.IgnoreAlreadyExists(s.Create(ctx, node)); err != nil {
			return fmt.Errorf("creating simulated node %q: %w", node.Name, err)
		}
	}
	return s.Plane.StartKwok(ctx, testplane.KwokOptions{})
}

// Connection is what another process needs to work on the clusters.
func (w *Clusters) Connection() *Connection {
	return &Connection{Rome: w.Rome.Endpoint(), Milan: w.Milan.Endpoint()}
}

// Endpoint is what another process needs to work on the cluster.
func (s *Side) Endpoint() Endpoint {
	return Endpoint{Name: s.Name, Kubeconfig: s.Plane.Kubeconfig(), WebhookIP: s.WebhookAddress.IP, Policies: s.workers.policies}
}
