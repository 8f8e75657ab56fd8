package convergence_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/testplane/churn"
	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/internal/testkit/feedserver"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
	"github.com/longshore-dev/longshore/host/kit/feed"
)

// brokenFor is the longest time for which watches of the feed are broken, and then are not.
const brokenFor = time.Second

func isForFeed(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, feed.Path) }

// The watches of a provider's feed end again and again, with each kind of error, and other requests
// to the provider fail too, while objects are created, changed and deleted. Afterwards the provider
// has what the consumer has.
func TestLongTheEndStateAfterFaultsOfTheFeed(t *testing.T) {
	c := twoclusters.Start(t, "shop")
	planetest.SimulateNodes(t, c.Provider, "milan-worker")
	server := feedserver.Start(t, c.Provider, "rome")
	provider := c.Proxy(c.Provider, c.RemoteUser())
	c.RunManager(c.Provider.RESTConfig())
	seen := watchRemotePods(t, c)
	c.StartKubelet(twoclusters.KubeletOptions{ProviderURL: provider.URL(), ClientTimeout: requestTimeout})
	c.Create(c.Rome, twoclusters.Pod("shop", "first"))
	awaitPods(t, c, "shop")
	require.Positive(t, server.Watches(), "the virtual kubelet uses the feed")

	begin, count, ended := seed(t), 600, make(chan error, 1)
	random := rand.New(rand.NewPCG(begin, churn.Workers))
	go func() {
		w := &churn.Workload{Client: c.Rome, Namespace: "shop", Seed: begin, Pause: longestPause, Pod: twoclusters.Pod}
		ended <- w.Run(t.Context(), count)
	}()
	disturb := disturbance(rand.New(rand.NewPCG(begin, churn.Workers+1)))
	rounds := func(faults ...faultproxy.RequestFault) {
		for _, fault := range faults {
			provider.Break(fault, isForFeed)
			require.True(t, churn.PauseFor(t.Context(), random, brokenFor))
			provider.Disturb(func(r *http.Request) faultproxy.Choice {
				if isForFeed(r) {
					return faultproxy.Choice{}
				}
				return disturb(r)
			})
			require.True(t, churn.PauseFor(t.Context(), random, brokenFor))
		}
	}
	// After these, the feed is asked again at once.
	rounds(faultproxy.Gone, faultproxy.TooManyRequests, faultproxy.Gone)
	planetest.Until(t, func(planetest.T) bool { return server.Watches() > 0 }, soon, tick, "the virtual kubelet uses the feed again")
	// After these, each namespace is watched for a time.
	rounds(faultproxy.Aborted, faultproxy.Unavailable, faultproxy.InternalError)
	require.NoError(t, <-ended)
	provider.Heal()

	awaitPods(t, c, "shop")
	awaitCopies(t, c, "shop")
	seen.AssertOneEach(t)
	assert.Greater(t, seen.Len(), churn.Workers, "pods were created meanwhile")
}
