// Package convergence_test checks that both clusters converge when virtual kubelets are killed and
// requests fail, with a workload that changes meanwhile.
package convergence_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/churn"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
)

const (
	kills = 20
	// longestLife is how long a virtual kubelet lives at most. It needs about a second to start.
	longestLife = 4 * time.Second
	keptPods    = 12
)

// keepPods creates pods that live as long as the test, and returns the UIDs of their remote pods.
func keepPods(t *testing.T, c *twoclusters.Clusters, namespace string) map[string]types.UID {
	t.Helper()
	for i := range keptPods {
		c.Create(c.Rome, twoclusters.Pod(namespace, "kept-"+string(rune('a'+i))))
	}
	awaitPods(t, c, namespace)
	return uidsOfRemotePods(t, c, namespace)
}

func uidsOfRemotePods(t *testing.T, c *twoclusters.Clusters, namespace string) map[string]types.UID {
	t.Helper()
	pods, uids := &corev1.PodList{}, map[string]types.UID{}
	require.NoError(t, c.Milan.List(t.Context(), pods, client.InNamespace(twoclusters.Remote(namespace))))
	for i := range pods.Items {
		uids[pods.Items[i].Name] = pods.Items[i].UID
	}
	return uids
}

// A virtual kubelet is killed 20 times at random moments, while pods, ConfigMaps, Secrets and
// Services are created, changed and deleted: each local pod has one remote pod all the time.
func TestLongKilledVirtualKubeletsKeepRemotePods(t *testing.T) {
	c := twoclusters.Start(t, "shop")
	planetest.SimulateNodes(t, c.Provider, "milan-worker")
	c.RunManager(c.Provider.RESTConfig())
	seen := watchRemotePods(t, c)
	process := c.StartKubelet(twoclusters.KubeletOptions{})
	kept := keepPods(t, c, "shop")

	begin := seed(t)
	churning, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	work := &churn.Workload{Client: c.Rome, Namespace: "shop", Seed: begin, Pause: 200 * time.Millisecond, Pod: twoclusters.Pod}
	const unlimited = 1 << 30
	go func() { ended <- work.Run(churning, unlimited) }()
	moments := rand.New(rand.NewPCG(begin, churn.Workers))
	for range kills {
		require.True(t, churn.PauseFor(t.Context(), moments, longestLife))
		process.Kill()
		process.Start()
	}
	stop()
	require.NoError(t, <-ended)

	awaitPods(t, c, "shop")
	awaitCopies(t, c, "shop")
	uids := uidsOfRemotePods(t, c, "shop")
	for name, uid := range kept {
		assert.Equal(t, uid, uids[name], "the remote pod %s", name)
	}
	seen.AssertOneEach(t)
	assert.Greater(t, seen.Len(), 2*keptPods, "pods were created meanwhile")
}

// awaitCopies waits until the provider has the same ConfigMaps, Secrets and Services, with the
// same content, and no others.
func awaitCopies(t *testing.T, c *twoclusters.Clusters, namespace string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		require.Equal(t, churn.Contents(t, c.Rome, namespace), churn.Contents(t, c.Milan, twoclusters.Remote(namespace)))
		return true
	}, soon, tick, "the provider has what namespace %s has", namespace)
}
