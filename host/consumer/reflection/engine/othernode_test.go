package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// messages records what events say.
type messages struct {
	mu   sync.Mutex
	said []string
}

func (m *messages) Event(_ runtime.Object, kind, reason, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = append(m.said, kind+" "+reason+" "+message)
}

func (m *messages) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.said...)
}

func TestANameHeldByAnotherVirtualNodeIsRecordedOnce(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"))
	other := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "web",
		Labels: labels.Merge(owned, labels.Set{offloadingv1beta1.NodeNameLabel: "another-node"}),
	}}
	require.NoError(t, remote.Create(t.Context(), other))
	recorded := &messages{}
	startWith(t, local, remote, func(o *Options) { o.Recorder = func(string) Recorder { return recorded } }, pods{})
	touches := 0
	// A change of the pod skips the backoff of the queue.
	touch := func() error {
		touches++
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, touches))
		return local.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, patch)
	}
	require.Eventually(t, func() bool {
		return touch() == nil && len(recorded.all()) > 0
	}, soon, tick)
	tries := remote.count("get ShadowPod")
	assert.Greater(t, tries, otherNodeTries, "not at once: most names are free a moment later")
	require.Eventually(t, func() bool {
		return touch() == nil && remote.count("get ShadowPod") > tries+otherNodeTries
	}, soon, tick)
	assert.Equal(t, []string{"Warning FailedReflection ShadowPod web in namespace shop-rome of cluster milan " +
		"still belongs to another virtual node (offloading.liqo.io/nodename=another-node). Waiting for its deletion."}, recorded.all())

	require.NoError(t, remote.Delete(t.Context(), other))
	require.NoError(t, touch())
	require.Eventually(t, func() bool {
		shadow, ok := get(t.Context(), remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
		return ok && shadow.Labels[offloadingv1beta1.NodeNameLabel] == nodeName
	}, soon, tick)
	assert.Len(t, recorded.all(), 1)
}

// podsOf is [pods] of another virtual node.
type podsOf struct {
	pods
	node string
}

func (p podsOf) Resource() Resource {
	resource := p.pods.Resource()
	resource.LocalFields = fields.OneTermEqualSelector("spec.nodeName", p.node)
	resource.RemoteLabels = labels.Set{offloadingv1beta1.NodeNameLabel: p.node}
	return resource
}

func (p podsOf) Decide(in Input) ([]Action, error) {
	actions, err := p.pods.Decide(in)
	for _, action := range actions {
		if create, ok := action.(Create); ok {
			create.Object.SetLabels(labels.Merge(create.Object.GetLabels(), labels.Set{offloadingv1beta1.NodeNameLabel: p.node}))
		}
	}
	return actions, err
}

func podOnNode(node, name string) *corev1.Pod {
	pod := localPod("shop", name)
	pod.Spec.NodeName = node
	return pod
}

// startNodes runs one engine for each virtual node.
func startNodes(t *testing.T, local, remote *cluster, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		startWith(t, local, remote, func(o *Options) { o.NodeName = node }, podsOf{node: node})
	}
}

// nodeOfShadow returns the virtual node of a ShadowPod, "" for none.
func nodeOfShadow(ctx context.Context, remote *cluster, name string) string {
	shadow, ok := get(ctx, remote.WithWatch, "shop-rome", name, &offloadingv1beta1.ShadowPod{})
	if !ok {
		return ""
	}
	return shadow.Labels[offloadingv1beta1.NodeNameLabel]
}

func TestANamePassesToAnotherVirtualNode(t *testing.T) {
	local, remote := mapped(t, podOnNode("a", "web"))
	startNodes(t, local, remote, "a", "b")
	require.Eventually(t, func() bool { return nodeOfShadow(t.Context(), remote, "web") == "a" }, soon, tick)
	for _, node := range []string{"b", "a", "b"} {
		before := &corev1.Pod{}
		// The fake API server does not compare UIDs: a late patch of this pod would change the next one.
		require.Eventually(t, func() bool {
			return local.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, before) == nil && before.Labels["offloaded"] == "true"
		}, soon, tick)
		require.NoError(t, local.Delete(t.Context(), before))
		require.NoError(t, local.Create(t.Context(), podOnNode(node, "web")))
		require.Eventually(t, func() bool { return nodeOfShadow(t.Context(), remote, "web") == node }, soon, tick, "a ShadowPod of %s", node)
	}
}

func TestARemoteObjectThatAnotherVirtualNodeTakesOverIsCreatedAgain(t *testing.T) {
	local, remote := mapped(t, podOnNode("a", "web"))
	startNodes(t, local, remote, "a", "b")
	require.Eventually(t, func() bool { return nodeOfShadow(t.Context(), remote, "web") == "a" }, soon, tick)
	shadow, _ := get(t.Context(), remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
	shadow.Labels[offloadingv1beta1.NodeNameLabel] = "b"
	require.NoError(t, remote.Update(t.Context(), shadow))
	require.Eventually(t, func() bool { return nodeOfShadow(t.Context(), remote, "web") == "a" }, soon, tick, "b has no such pod and deletes it")
}
