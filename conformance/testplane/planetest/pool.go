package planetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/testplane"
)

// idle are the clusters of this test process that no test has. A start takes seconds, a reset a fraction of one.
var idle struct {
	mu       sync.Mutex
	clusters []*testplane.Cluster
}

// borrow returns clusters for one test, with Longshore's CustomResourceDefinitions as InstallCRDs installs them
// and nothing else. After the test they are reset for the next one. After a test that failed, stopped them or
// restarted them, they are killed.
func borrow(tb testing.TB, names ...string) []*testplane.Cluster {
	tb.Helper()
	clusters, isNew, errs := make([]*testplane.Cluster, len(names)), make([]bool, len(names)), make([]error, len(names))
	var starts sync.WaitGroup
	for i, name := range names {
		if clusters[i] = takeIdle(name); clusters[i] == nil {
			isNew[i] = true
			starts.Go(func() { clusters[i], errs[i] = startTemporary(tb.Context(), name) })
		}
	}
	starts.Wait()
	for _, c := range clusters {
		if c != nil {
			control := c.PID()
			tb.Cleanup(func() { giveBack(tb, c, control) })
		}
	}
	require.NoError(tb, errors.Join(errs...))
	for i, c := range clusters {
		if isNew[i] {
			InstallCRDs(tb, c.RESTConfig())
			require.NoError(tb, c.Record(tb.Context()))
		}
	}
	return clusters
}

func startTemporary(ctx context.Context, name string) (*testplane.Cluster, error) {
	dir, err := os.MkdirTemp("", "plane-")
	if err != nil {
		return nil, fmt.Errorf("creating the directory of cluster %q: %w", name, err)
	}
	c, err := testplane.Start(ctx, testplane.Options{Name: name, Dir: dir, Temporary: true})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

func takeIdle(name string) *testplane.Cluster {
	idle.mu.Lock()
	defer idle.mu.Unlock()
	at := slices.IndexFunc(idle.clusters, func(c *testplane.Cluster) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	c := idle.clusters[at]
	idle.clusters = slices.Delete(idle.clusters, at, at+1)
	return c
}

// giveBack resets a cluster whose control plane had a PID when the test began.
func giveBack(tb testing.TB, c *testplane.Cluster, control int) {
	tb.Helper()
	if tb.Failed() {
		tb.Logf("cluster %s:\n%s", c.Name, c.Diagnose(tailLines))
	}
	if !tb.Failed() && c.PID() == control && c.Reset(context.Background()) == nil {
		idle.mu.Lock()
		defer idle.mu.Unlock()
		idle.clusters = append(idle.clusters, c)
		return
	}
	assert.NoError(tb, c.Kill())
	require.NoError(tb, os.RemoveAll(c.Dir))
}
