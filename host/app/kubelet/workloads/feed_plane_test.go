package workloads_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/internal/testkit/feedserver"
	"github.com/longshore-dev/longshore/host/internal/testkit/twoclusters"
	wire "github.com/longshore-dev/longshore/host/kit/feed"
)

// watches counts the open watches of a cluster: those of the feed, and those of single namespaces.
type watches struct{ feed, namespaces int }

func countWatches(t planetest.T, cluster kubernetes.Interface, server *feedserver.Server) watches {
	t.Helper()
	w := watches{feed: server.Watches()}
	raw, err := cluster.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		// The API server does not count those of the feed.
		if !strings.HasPrefix(line, "apiserver_longrunning_requests{") || !strings.Contains(line, `verb="WATCH"`) || !strings.Contains(line, `scope="namespace"`) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
		require.NoError(t, err)
		w.namespaces += int(value)
	}
	return w
}

// settledWatches returns the watches that have not changed for a time.
func settledWatches(t *testing.T, cluster kubernetes.Interface, server *feedserver.Server, name string) (last watches) {
	t.Helper()
	const settled = 20
	same := 0
	planetest.Until(t, func(t planetest.T) bool {
		if now := countWatches(t, cluster, server); now != last {
			last, same = now, 0
		}
		same++
		return same > settled
	}, soon, tick, name)
	return last
}

// isCorrected changes a reflected ConfigMap in the provider, and waits until the virtual kubelet,
// which sees that by a watch only, has restored it.
func isCorrected(t *testing.T, c *twoclusters.Clusters, namespace string) {
	t.Helper()
	key := client.ObjectKey{Namespace: twoclusters.Remote(namespace), Name: "settings"}
	planetest.Until(t, func(t planetest.T) bool {
		remote := &corev1.ConfigMap{}
		if c.Milan.Get(t.Context(), key, remote) != nil {
			return false
		}
		remote.Data = map[string]string{"key": "changed"}
		return c.Milan.Update(t.Context(), remote) == nil
	}, soon, tick, "the ConfigMap of namespace %s is reflected", namespace)
	planetest.Until(t, func(t planetest.T) bool {
		remote := &corev1.ConfigMap{}
		return c.Milan.Get(t.Context(), key, remote) == nil && remote.Data["key"] == "value"
	}, soon, tick, "the ConfigMap of namespace %s is restored", namespace)
}

func settings(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: namespace}, Data: map[string]string{"key": "value"}}
}

// With a feed, the watches towards the provider grow with kinds and not with namespaces. Without it,
// a virtual kubelet watches each namespace.
func TestAFeedReplacesTheWatchesOfNamespaces(t *testing.T) {
	c := twoclusters.Start(t, "shop-1", "shop-2")
	server := feedserver.Start(t, c.Provider, "rome")
	provider := planetest.Client(t, c.Provider)
	before := settledWatches(t, provider, server, "the watches without a virtual kubelet settle")
	kubelet := c.StartKubelet(twoclusters.KubeletOptions{})
	for _, namespace := range []string{"shop-1", "shop-2"} {
		c.Create(c.Rome, settings(namespace))
		isCorrected(t, c, namespace)
	}
	two := settledWatches(t, provider, server, "the watches of two namespaces settle")
	assert.Equal(t, before.namespaces, two.namespaces, "no namespace is watched")
	assert.Positive(t, two.feed)
	assert.LessOrEqual(t, two.feed, len(wire.Resources()))

	c.MapNamespaces("shop-3", "shop-4", "shop-5")
	for _, namespace := range []string{"shop-3", "shop-4", "shop-5"} {
		c.Create(c.Rome, settings(namespace))
		isCorrected(t, c, namespace)
	}
	five := settledWatches(t, provider, server, "the watches of five namespaces settle")
	t.Logf("watches of the feed: %d, of namespaces: %d", five.feed, five.namespaces-before.namespaces)
	assert.Equal(t, two, five, "more namespaces need no more watches")

	// A pod of the provider reaches its local pod.
	c.Create(c.Rome, twoclusters.Pod("shop-4", "web"))
	planetest.Until(t, func(t planetest.T) bool {
		return c.Milan.Get(t.Context(), client.ObjectKey{Namespace: twoclusters.Remote("shop-4"), Name: "web"}, &offloadingv1beta1.ShadowPod{}) == nil
	}, soon, tick, "the pod is offloaded")

	server.Stop()
	isCorrected(t, c, "shop-1")
	planetest.Until(t, func(t planetest.T) bool {
		now := countWatches(t, provider, server)
		return now.feed == 0 && now.namespaces == before.namespaces+5*two.feed
	}, soon, tick, "each namespace is watched after the feed has stopped")

	server.Unregister(t)
	kubelet.Kill()
	kubelet.Start()
	isCorrected(t, c, "shop-3")
	direct := settledWatches(t, provider, server, "the watches without a feed settle")
	assert.Equal(t, before.namespaces+5*two.feed, direct.namespaces)
}
