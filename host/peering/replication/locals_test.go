package replication

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// requests counts what a client asked, by verb.
func requests(c interface{ Actions() []clienttesting.Action }) map[string]int {
	counts := map[string]int{}
	for _, action := range c.Actions() {
		counts[action.GetVerb()]++
	}
	return counts
}

// ofPeer changes a Secret to that of another provider.
func ofPeer(peer string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.Namespace = "liqo-tenant-" + peer
		s.Labels[liqocorev1beta1.RemoteClusterIDLabel] = peer
		s.Annotations["liqo.io/remote-tenant-namespace"] = "liqo-tenant-rome-in-" + peer
	}
}

// TestPeersShareTheWatchesOfLocalObjects has ten peers: each gets its own objects, and all of them
// cost the local cluster one watch for each resource.
func TestPeersShareTheWatchesOfLocalObjects(t *testing.T) {
	var local []runtime.Object
	var objects []client.Object
	var secrets []*corev1.Secret
	peers := make([]string, 10)
	for i := range peers {
		peers[i] = fmt.Sprintf("peer-%d", i)
		s := secret(ofPeer(peers[i]))
		secrets, objects = append(secrets, s), append(objects, s, namespace(s.Namespace, peers[i]))
		local = append(local, ownObject(func(u *unstructured.Unstructured) {
			u.SetNamespace(s.Namespace)
			u.SetLabels(map[string]string{liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: peers[i]})
		}))
	}
	w := newFixture(t, dynamicClient(local...), dynamicClient(), objects...)
	for _, s := range secrets {
		_, err := w.reconcileNamed(t, s)
		require.NoError(t, err)
	}
	require.Len(t, w.running, len(peers))
	for _, peer := range peers {
		planetest.Until(t, func(t planetest.T) bool { return get(t, w.remote, "liqo-tenant-rome-in-"+peer) != nil }, patience, every, peer)
	}
	copies, err := w.remote.Resource(nsMaps).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, copies.Items, len(peers), "each peer gets its own object only")
	asked := requests(w.local)
	assert.Equal(t, 1, asked["watch"])
	assert.LessOrEqual(t, asked["list"], 2, "a slow one asks whether the API server was restored")

	// An object that is created later reaches its peer, and no other.
	later := ownObject(func(u *unstructured.Unstructured) {
		u.SetNamespace("liqo-tenant-peer-7")
		u.SetName("later")
		u.SetLabels(map[string]string{liqocorev1beta1.ReplicationLabel: "true", liqocorev1beta1.RemoteIDLabel: "peer-7"})
	})
	_, err = w.local.Resource(nsMaps).Namespace(later.GetNamespace()).Create(t.Context(), later, metav1.CreateOptions{})
	require.NoError(t, err)
	planetest.Until(t, func(t planetest.T) bool {
		_, err := w.remote.Resource(nsMaps).Namespace("liqo-tenant-rome-in-peer-7").Get(t.Context(), "later", metav1.GetOptions{})
		return err == nil
	}, patience, every)

	// The watches end with the last peer.
	shared := w.locals
	for i, s := range secrets {
		require.NotNil(t, w.locals, "%d peers are left", len(peers)-i)
		w.stop(client.ObjectKeyFromObject(s))
	}
	assert.Nil(t, w.locals)
	assert.Empty(t, shared.reflectors)
	shared.running.Wait()
}

// Copies of other clusters may be many: they are those of the tenants of this cluster.
func TestCopiesOfOtherClustersAreNotWatched(t *testing.T) {
	local := dynamicClient(ownObject())
	w := newFixture(t, local, dynamicClient(), secret())
	_, err := w.pass(t)
	require.NoError(t, err)
	planetest.Until(t, func(t planetest.T) bool { return get(t, w.remote, providerTenant) != nil }, patience, every)
	for _, action := range local.Actions() {
		if list, ok := action.(clienttesting.ListAction); ok {
			assert.Equal(t, "liqo.io/replicated!=true", list.GetListRestrictions().Labels.String())
		}
	}
}
