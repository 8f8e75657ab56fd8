// Package planetest gives tests real clusters that end with the test.
package planetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/longshore-dev/longshore/conformance/testplane"
)

const (
	// NodeTimeout is how long SimulateNodes waits for its nodes to be ready.
	NodeTimeout = 2 * time.Minute

	poll      = 25 * time.Millisecond
	tailLines = 5
)

// NeedsControlPlane skips the test when only fast tests are asked for (go test -short).
func NeedsControlPlane(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starts control planes")
	}
}

// ForTest returns a cluster for one test, with Longshore's CustomResourceDefinitions as InstallCRDs installs
// them and nothing else; when the test failed, the end of the cluster's log is printed. Tests of a package
// have the same cluster one after the other. Get several clusters with ForTests, that is faster.
//
// With options, or Own, the cluster is started for this test, and has no CustomResourceDefinitions.
//
// It fails the test at once when the test plane binary is not built, and names the command
// that builds it.
func ForTest(tb testing.TB, name string, adjust ...func(*testplane.Options)) *testplane.Cluster {
	tb.Helper()
	NeedsControlPlane(tb)
	if len(adjust) == 0 {
		return borrow(tb, name)[0]
	}
	options := testplane.Options{Name: name, Dir: tb.TempDir()}
	for _, change := range adjust {
		change(&options)
	}
	c, err := testplane.Start(tb.Context(), options)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("cluster %s:\n%s", name, c.Diagnose(tailLines))
		}
		assert.NoError(tb, c.Kill())
	})
	return c
}

// Own lets ForTest start a cluster that is empty, and whose directory stays until the test ends.
func Own(*testplane.Options) {}

// ForTests returns one cluster per name, as ForTest does; the result is in their order.
func ForTests(tb testing.TB, names ...string) []*testplane.Cluster {
	tb.Helper()
	NeedsControlPlane(tb)
	return borrow(tb, names...)
}

// Client is a client of the cluster's administrator.
func Client(tb testing.TB, c *testplane.Cluster) *kubernetes.Clientset {
	tb.Helper()
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	require.NoError(tb, err)
	return client
}

// SimulateNodes starts kwok on the cluster and creates nodes for it, with the capacity
// of testplane.FakeNode, and returns when they are ready.
func SimulateNodes(tb testing.TB, c *testplane.Cluster, names ...string) {
	tb.Helper()
	require.NoError(tb, c.StartKwok(tb.Context(), testplane.KwokOptions{}))
	nodes := Client(tb, c).CoreV1().Nodes()
	for _, name := range names {
		_, err := nodes.Create(tb.Context(), testplane.FakeNode(name, nil), metav1.CreateOptions{})
		require.NoError(tb, err)
	}
	for _, name := range names {
		require.Eventually(tb, func() bool {
			node, err := nodes.Get(tb.Context(), name, metav1.GetOptions{})
			return err == nil && nodeReady(node)
		}, NodeTimeout, poll, "node %s of cluster %s becomes ready", name, c.Name)
	}
}

func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
