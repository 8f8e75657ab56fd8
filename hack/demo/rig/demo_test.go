package rig_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/application"
	"github.com/longshore-dev/longshore/hack/demo/rig"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// applicationPods is how many pods the application has.
const applicationPods = 6

var (
	// ofPods are objects with the names of pods.
	ofPods = regexp.MustCompile(`^(shadowpods |secrets .*-token$)`)
	// aMinuteLate are created when the manager has run for a minute.
	aMinuteLate = regexp.MustCompile(`^resourcequotas .*/longshore-consumer$`)
)

// demo is what `make demo` brings up, by the same code.
type demo struct {
	*rig.Rig

	clusters *rig.Clusters
	// dir holds the clusters' data; logs, in it, the logs of Longshore's processes.
	dir, logs string
	// objects are those of both clusters when the application runs.
	objects map[*rig.Cluster]map[string]bool
	// isSpent says that a test took back what the demo has.
	isSpent bool
}

// step is a part of a test, on clusters.
type step[C any] struct {
	name string
	run  func(*testing.T, C)
}

// inTurn runs steps that need those before them, to the first one that fails.
func inTurn[C any](t *testing.T, clusters C, steps []step[C]) {
	t.Helper()
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, clusters) }) {
			return
		}
	}
}

// idle are the demos of this test process that no test has.
var idle struct {
	mu    sync.Mutex
	demos []*demo
}

// borrow returns the demo with its application, for one test. Tests have the same one, one after the other:
// a start takes half a minute. It is stopped after a test that failed, or that has spent it.
func borrow(t *testing.T) *demo {
	t.Helper()
	planetest.NeedsControlPlane(t)
	if d := takeIdle(); d != nil {
		t.Cleanup(func() { d.giveBack(t) })
		return d
	}
	dir, err := os.MkdirTemp("", "demo-")
	require.NoError(t, err)
	d := startClusters(t, dir)
	t.Cleanup(func() { d.giveBack(t) })
	d.prepare(t)
	runApplication(t, d.Rig)
	d.objects = inventories(t, d.Rig)
	return d
}

func takeIdle() *demo {
	idle.mu.Lock()
	defer idle.mu.Unlock()
	if len(idle.demos) == 0 {
		return nil
	}
	d := idle.demos[0]
	idle.demos = idle.demos[1:]
	return d
}

func (d *demo) giveBack(t *testing.T) {
	t.Helper()
	if !t.Failed() && !d.isSpent {
		idle.mu.Lock()
		defer idle.mu.Unlock()
		idle.demos = append(idle.demos, d)
		return
	}
	d.stop(t)
	require.NoError(t, os.RemoveAll(d.dir))
}

// stopIdle stops the demos when the last test has ended.
func stopIdle() error {
	var errs []error
	for d := takeIdle(); d != nil; d = takeIdle() {
		errs = append(errs, d.clusters.Stop(context.Background()), os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}

// each runs steps that do not need each other: each leaves the demo as it finds it.
func (d *demo) each(t *testing.T, steps []step[*rig.Rig]) {
	t.Helper()
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			step.run(t, d.Rig)
			eventually(t, "the application has its pods", func(t planetest.T) bool {
				running := slices.DeleteFunc(pods(t, d.Rome, application.Namespace, nil), func(p corev1.Pod) bool { return !ready(&p) })
				return assert.Len(t, running, applicationPods) && assert.Len(t, pods(t, d.Milan, "shop-rome", nil), applicationPods)
			})
		})
	}
	t.Run("nothing is left", func(t *testing.T) { isAsBefore(t, d.objects, ofPods, aMinuteLate) })
}

// start starts the demo's clusters for one test. Longshore is not installed.
func start(t *testing.T) *demo {
	t.Helper()
	d := startClusters(t, t.TempDir())
	t.Cleanup(func() { d.stop(t) })
	return d
}

// startClusters starts the demo's clusters in a folder.
func startClusters(t *testing.T, dir string) *demo {
	t.Helper()
	planetest.NeedsControlPlane(t)
	_, err := os.Stat(server)
	require.NoError(t, err, "the server binary is missing: run make build")
	d := &demo{dir: dir, logs: filepath.Join(dir, "logs")}
	d.clusters, err = rig.StartClusters(t.Context(), rig.StartOptions{
		Dir: filepath.Join(dir, "data"), LogDir: d.logs, Longshore: server, SimulatedNodes: 2, PodsPerNode: "2500",
		Step: func(step string) { t.Log(step) },
	})
	require.NoError(t, err)
	d.Rig, err = rig.Open(d.clusters.Connection())
	require.NoError(t, err)
	return d
}

// stop stops the clusters, and prints the logs after a failure.
func (d *demo) stop(t *testing.T) {
	t.Helper()
	err := d.clusters.Stop(context.Background())
	if err != nil || t.Failed() {
		printLogs(t, d.logs)
	}
	require.NoError(t, err)
}

// prepare installs Longshore and peers the clusters.
func (d *demo) prepare(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(t, d.Install(ctx, d.AllowAPIAccess))
	require.NoError(t, d.Rome.WaitForDeployments(ctx, rig.Namespace, quiet))
	require.NoError(t, d.Milan.WaitForDeployments(ctx, rig.Namespace, quiet))
	require.NoError(t, d.Peer(ctx, quiet))
	createStorage(t, d.Rig)
	require.NoError(t, d.PrepareProvider(ctx))
}

// runApplication has clusters that are peered run the application.
func runApplication(t *testing.T, r *rig.Rig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, r.CreateVirtualNode(ctx, rig.Capacity("640", "2560Gi", "5000"), quiet))
	require.NoError(t, r.Rome.Offload(ctx, application.Namespace, offloadingv1beta1.RemotePodOffloadingStrategyType, quiet))
	require.NoError(t, r.RunApplication(ctx, quiet))
}
