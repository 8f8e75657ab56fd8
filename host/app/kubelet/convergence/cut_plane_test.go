package convergence_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/churn"
	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
)

// cutLength is how long the provider is cut off.
const cutLength = time.Minute

// hasSeenEach reports whether the pod of each ShadowPod was seen.
func hasSeenEach(t planetest.T, c *twoclusters.Clusters, seen *churn.RemoteUIDs) bool {
	t.Helper()
	shadows := &offloadingv1beta1.ShadowPodList{}
	require.NoError(t, c.Milan.List(t.Context(), shadows, client.InNamespace(twoclusters.Remote("shop"))))
	return !slices.ContainsFunc(shadows.Items, func(shadow offloadingv1beta1.ShadowPod) bool {
		return shadow.DeletionTimestamp.IsZero() && !seen.Has(shadow.Annotations[remote.LocalPodUIDAnnotation])
	})
}

// The link to the provider is cut while pods, ConfigMaps, Secrets and Services are created, changed
// and deleted: afterwards both clusters converge, no remote pod is lost, and none exists twice.
func TestLongAProviderThatIsCutOffDuringChurn(t *testing.T) {
	c := twoclusters.Start(t, "shop")
	planetest.SimulateNodes(t, c.Provider, "milan-worker")
	proxy, err := faultproxy.Start(c.Provider.Endpoint())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, proxy.Close()) })
	c.RunManager(c.Provider.RESTConfig())
	seen := watchRemotePods(t, c)
	c.StartKubelet(twoclusters.KubeletOptions{ProviderURL: proxy.URL()})
	kept := keepPods(t, c, "shop")

	churning, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	work := &churn.Workload{Client: c.Rome, Namespace: "shop", Seed: seed(t), Pause: 2 * longestPause, Pod: twoclusters.Pod}
	go func() { ended <- work.Run(churning, 1<<30) }()
	before := seen.Len()
	planetest.Until(t, func(planetest.T) bool { return seen.Len() > before+churn.Workers }, soon, tick, "pods are offloaded")

	proxy.Cut(faultproxy.Blackhole)
	planetest.Until(t, func(t planetest.T) bool { return hasSeenEach(t, c, seen) }, soon, tick, "the provider creates the pods that were requested before")
	during := seen.Len()
	select {
	case err := <-ended:
		require.NoError(t, err)
		require.Fail(t, "the workload ended")
	case <-time.After(cutLength): // The length of the cut is what is tested.
	}
	// Requests that had arrived before the cut may still be handled.
	assert.LessOrEqual(t, seen.Len(), during+2*churn.Workers, "no pods are offloaded meanwhile")
	proxy.Heal()
	after := seen.Len()
	planetest.Until(t, func(planetest.T) bool { return seen.Len() > after+churn.Workers }, soon, tick, "pods are offloaded again")
	stop()
	require.NoError(t, <-ended)

	awaitPods(t, c, "shop")
	awaitCopies(t, c, "shop")
	uids := uidsOfRemotePods(t, c, "shop")
	for name, uid := range kept {
		assert.Equal(t, uid, uids[name], "the remote pod %s", name)
	}
	seen.AssertOneEach(t)
}
