package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	// offloaded is the namespace whose pods go to milan, plain the one in milan in
	// which the plain client works.
	offloaded = "bench"
	plain     = "bench-plain"

	simulatedNodes = 8
	// writers is how many requests this client has under way.
	writers     = 16
	podsPerNode = "2000"
	virtualPods = "4000"

	// schedulerQPS lifts the schedulers' own throttle of 50 bindings a second, which
	// would hide everything else; the controller managers' is lifted by the rig.
	schedulerQPS = "--kube-api-qps=1000"
	schedulerTop = "--kube-api-burst=1000"

	poll          = 100 * time.Millisecond
	startPatience = 5 * time.Minute
	stepPatience  = 8 * time.Minute
	longPatience  = 45 * time.Minute
)

// side is one cluster with the clients that the benchmark measures with.
type side struct {
	*rig.Cluster
	client   kubernetes.Interface
	metadata metadata.Interface
}

// testbed is the installation under test.
type testbed struct {
	rig         *rig.Clusters
	rome, milan *side
	// remote is the namespace in milan that the offloaded one is mapped to.
	remote string
	audit  auditLogs
	// template is a ShadowPod as the virtual kubelet makes it, for the plain client.
	template *offloadingv1beta1.ShadowPod
	// peering and virtualNode are how long these steps of the preparation took.
	peering, virtualNode time.Duration
}

// inTestbed starts two clusters, installs, peers and offloads as the demo does, measures, and stops them.
// Change alters the values of the chart; it may be nil.
func (b *bench) inTestbed(ctx context.Context, change func(cluster string, values map[string]any), measure func(context.Context) error) (err error) {
	starting, cancel := withPatience(ctx, startPatience)
	defer cancel()
	dir, err := os.MkdirTemp(b.dir, "clusters-")
	if err != nil {
		return fmt.Errorf("making a folder for the clusters: %w", err)
	}
	clusters, err := rig.StartClusters(starting, rig.StartOptions{
		Dir: dir, LogDir: filepath.Join(dir, "logs"), Longshore: b.longshore,
		SimulatedNodes: simulatedNodes, PodsPerNode: podsPerNode, Audit: true,
		SchedulerArgs: []string{schedulerQPS, schedulerTop},
		Step:          func(step string) { b.logf("%s", step) },
	})
	if err != nil {
		return fmt.Errorf("starting the clusters: %w", err)
	}
	b.testbed = &testbed{rig: clusters}
	b.testbed.audit.paths = map[string]string{rig.Consumer: rig.AuditLog(dir, rig.Consumer), rig.Provider: rig.AuditLog(dir, rig.Provider)}
	defer func() { err = errors.Join(err, b.testbed.stop(context.WithoutCancel(ctx))) }()
	b.logf("installing Longshore, peering, virtual node, offloaded namespace")
	if err := b.testbed.prepare(starting, change); err != nil {
		return err
	}
	return measure(ctx)
}

func (w *testbed) prepare(ctx context.Context, change func(string, map[string]any)) error {
	r, err := rig.Open(w.rig.Connection())
	if err != nil {
		return err
	}
	if w.rome, err = newSide(r.Rome); err != nil {
		return err
	}
	if w.milan, err = newSide(r.Milan); err != nil {
		return err
	}
	quiet := func(string) {}
	if err := r.Install(ctx, change); err != nil {
		return err
	}
	for _, c := range []*rig.Cluster{r.Rome, r.Milan} {
		if err := c.WaitForDeployments(ctx, rig.Namespace, quiet); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := r.Peer(ctx, quiet); err != nil {
		return err
	}
	w.peering = time.Since(began)
	began = time.Now()
	if err := r.CreateVirtualNode(ctx, rig.Capacity("256", "1024Gi", virtualPods), quiet); err != nil {
		return err
	}
	w.virtualNode = time.Since(began)
	if err := r.Rome.Offload(ctx, offloaded, offloadingv1beta1.RemotePodOffloadingStrategyType, quiet); err != nil {
		return err
	}
	return w.namespaces(ctx)
}

// namespaces finds the remote namespace and makes the plain client's.
func (w *testbed) namespaces(ctx context.Context) error {
	offloading := &offloadingv1beta1.NamespaceOffloading{}
	key := client.ObjectKey{Namespace: offloaded, Name: offloadingv1beta1.NamespaceOffloadingName}
	if err := w.rome.Get(ctx, key, offloading); err != nil {
		return fmt.Errorf("reading NamespaceOffloading %s: %w", key, err)
	}
	if w.remote = offloading.Status.RemoteNamespaceName; w.remote == "" {
		return fmt.Errorf("NamespaceOffloading %s names no remote namespace", key)
	}
	return w.milan.admitPlainClient(ctx)
}

func newSide(c *rig.Cluster) (*side, error) {
	config := rest.CopyConfig(c.Config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to cluster %q: %w", c.Name, err)
	}
	meta, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to cluster %q: %w", c.Name, err)
	}
	return &side{Cluster: c, client: clientset, metadata: meta}, nil
}

func (w *testbed) stop(ctx context.Context) error {
	if err := w.rig.Stop(ctx); err != nil {
		return fmt.Errorf("stopping the clusters: %w", err)
	}
	return nil
}

// usage reads what all processes of the rig have used.
func (w *testbed) usage() (usages, error) { return processes("/proc", os.Getpid()) }

// waitEmpty waits until neither pods nor ShadowPods are left in the namespace.
func (s *side) waitEmpty(ctx context.Context, namespace string) error {
	return until(ctx, fmt.Sprintf("%q of %q is empty", namespace, s.Name), func() (bool, error) {
		for _, resource := range []metadata.Getter{s.metadata.Resource(podResource), s.metadata.Resource(shadowPods)} {
			list, err := resource.Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil || len(list.Items) > 0 {
				return false, err
			}
		}
		return true, nil
	})
}

// until waits until something is done.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	for {
		isDone, err := done()
		if err == nil && !isDone {
			err = pause(ctx, poll)
		}
		if err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		if isDone {
			return nil
		}
	}
}

// withPatience returns a context that ends with an error which says how long was waited.
func withPatience(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, patience, fmt.Errorf("not done after %s", patience))
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
