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

	"github.com/longshore-dev/longshore/conformance/plane"
)

const (
	// NodeTimeout is how long SimulateNodes waits for its nodes to be ready.
	NodeTimeout = 30 * time.Second

	poll      = 25 * time.Millisecond
	tailLines = 40
)

// ForTest starts a cluster that is killed and removed when the test ends; when the test
// failed, the end of the cluster's log is printed. Start several clusters of a test
// with ForTests, that is faster.
//
// It fails the test at once when the test plane binary is not built, and says how to.
func ForTest(t testing.TB, name string, adjust ...func(*plane.Options)) *plane.Cluster {
	t.Helper()
	c, err := start(t, name, adjust)
	require.NoError(t, err)
	return c
}

// ForTests starts one cluster per name at the same time; the result is in their order.
func ForTests(t testing.TB, names ...string) []*plane.Cluster {
	t.Helper()
	clusters, errs := make([]*plane.Cluster, len(names)), make([]error, len(names))
	done := make(chan struct{})
	for i, name := range names {
		go func() {
			clusters[i], errs[i] = start(t, name, nil)
			done <- struct{}{}
		}()
	}
	for range names {
		<-done
	}
	for _, err := range errs {
		require.NoError(t, err)
	}
	return clusters
}

// start may run beside the test's goroutine, so it must not end the test.
func start(t testing.TB, name string, adjust []func(*plane.Options)) (*plane.Cluster, error) {
	options := plane.Options{Name: name, Dir: t.TempDir()}
	for _, change := range adjust {
		change(&options)
	}
	c, err := plane.Start(t.Context(), options)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says all, and goes to the test's output
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("cluster %s:\n%s", name, c.Diagnose(tailLines))
		}
		assert.NoError(t, c.Kill())
	})
	return c, nil
}

// Client is a client of the cluster's administrator.
func Client(t testing.TB, c *plane.Cluster) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	require.NoError(t, err)
	return client
}

// SimulateNodes starts kwok on the cluster and creates nodes for it, with the capacity
// of plane.FakeNode, and returns when they are ready.
func SimulateNodes(t testing.TB, c *plane.Cluster, names ...string) {
	t.Helper()
	require.NoError(t, c.StartKwok(t.Context(), plane.KwokOptions{}))
	nodes := Client(t, c).CoreV1().Nodes()
	for _, name := range names {
		_, err := nodes.Create(t.Context(), plane.FakeNode(name, nil), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, name := range names {
		require.Eventually(t, func() bool {
			node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
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
