package engine

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	assert.Equal(t, []string{"Warning FailedReflection A pod named web in namespace shop-rome of cluster milan " +
		"still belongs to another virtual node (offloading.liqo.io/nodename=another-node). Waiting for its deletion."}, recorded.all())

	require.NoError(t, remote.Delete(t.Context(), other))
	require.NoError(t, touch())
	require.Eventually(t, func() bool {
		shadow, ok := get(t.Context(), remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
		return ok && shadow.Labels[offloadingv1beta1.NodeNameLabel] == nodeName
	}, soon, tick)
	assert.Len(t, recorded.all(), 1)
}
