package convergence_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/longshore-dev/longshore/conformance/testplane/churn"
	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
)

const (
	// fewOperations and manyOperations are the numbers of operations of the short test and of the long one.
	fewOperations, manyOperations = 400, 10_000
	// longestPause is the longest time between two operations of a worker. Without one, the
	// virtual kubelet would see few of the states in between.
	longestPause = 100 * time.Millisecond
	// longestDelay is the longest delay of a request.
	longestDelay = 100 * time.Millisecond
	// requestTimeout is the --client-timeout of the virtual kubelet.
	requestTimeout = 10 * time.Second
)

// disturbance chooses faults for a share of the requests to an API server. Leases are not
// disturbed: a virtual kubelet that loses its lease ends, which is the subject of the test of
// killed virtual kubelets.
func disturbance(random *rand.Rand) func(*http.Request) faultproxy.Choice {
	return func(r *http.Request) (choice faultproxy.Choice) {
		if strings.Contains(r.URL.Path, "/leases") {
			return choice
		}
		if random.IntN(4) == 0 {
			choice.Delay = time.Duration(random.Int64N(int64(longestDelay)))
		}
		faults := []faultproxy.RequestFault{faultproxy.InternalError, faultproxy.Unavailable, faultproxy.TooManyRequests, faultproxy.Aborted}
		switch {
		case r.URL.Query().Get("watch") != "":
			faults = append(faults, faultproxy.Gone)
		case r.Method == http.MethodPost:
			faults = append(faults, faultproxy.TimedOut)
		case r.Method != http.MethodGet:
			faults = append(faults, faultproxy.Conflict, faultproxy.Conflict, faultproxy.TimedOut)
		}
		if random.IntN(8) == 0 {
			choice.Fault = faults[random.IntN(len(faults))]
		}
		return choice
	}
}

// Of the requests of the virtual kubelet to both API servers, and of the provider's controllers,
// every eighth fails and every fourth is late, while objects are created, changed and deleted.
// Afterwards the clusters have what they have after the same operations without faults.
func TestTheEndStateAfterFaultsIsThatWithoutFaults(t *testing.T) {
	endStateAfterFaults(t, fewOperations)
}

func TestLongTheEndStateAfterManyFaultsIsThatWithoutFaults(t *testing.T) {
	endStateAfterFaults(t, manyOperations)
}

func endStateAfterFaults(t *testing.T, n int) {
	t.Helper()
	c := twoclusters.Start(t, "rough", "smooth")
	planetest.SimulateNodes(t, c.Provider, "milan-worker")
	consumer := c.Proxy(c.Consumer, c.Consumer.RESTConfig())
	provider := c.Proxy(c.Provider, c.RemoteUser())
	controllers := c.Proxy(c.Provider, c.Provider.RESTConfig())
	proxies := []*faultproxy.Requests{consumer, provider, controllers}
	throughProxy := rest.CopyConfig(c.Provider.RESTConfig())
	throughProxy.Host = controllers.URL()
	c.RunManager(throughProxy)
	seen := watchRemotePods(t, c)
	c.StartKubelet(twoclusters.KubeletOptions{ConsumerURL: consumer.URL(), ProviderURL: provider.URL(), ClientTimeout: requestTimeout})
	c.Create(c.Rome, twoclusters.Pod("rough", "first"), twoclusters.Pod("smooth", "first"))
	awaitPods(t, c, "rough")

	begin := seed(t)
	for i, proxy := range proxies {
		proxy.Disturb(disturbance(rand.New(rand.NewPCG(begin, uint64(churn.Workers+i)))))
	}
	run := func(namespace string) {
		w := &churn.Workload{Client: c.Rome, Namespace: namespace, Seed: begin, Pause: longestPause, Pod: twoclusters.Pod}
		require.NoError(t, w.Run(t.Context(), n))
		awaitPods(t, c, namespace)
		awaitCopies(t, c, namespace)
	}
	run("rough")
	for _, proxy := range proxies {
		assert.Positive(t, proxy.Broken())
		t.Logf("%d requests failed", proxy.Broken())
		proxy.Heal()
	}
	run("smooth")

	planetest.Until(t, func(t planetest.T) bool {
		want, got := state(t, c, "smooth"), state(t, c, "rough")
		for key := range want {
			if want[key] == got[key] {
				delete(want, key)
				delete(got, key)
			}
		}
		require.Equal(t, want, got)
		return true
	}, soon, tick, "the state after faults is that without faults")
	assert.Greater(t, len(state(t, c, "rough")), 5*churn.Workers, "there is something to compare")
	seen.AssertOneEach(t)
}
