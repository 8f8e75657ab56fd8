package engine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shared is [maps] for the leader only. before is called after each decision.
type shared struct {
	maps
	before func(context.Context) error
}

func (shared) Resource() Resource {
	resource := maps{}.Resource()
	resource.LeaderOnly = true
	return resource
}

func (s shared) Decide(in Input) ([]Action, error) {
	if s.before == nil {
		return s.maps.Decide(in)
	}
	return []Action{Query{Run: func(ctx context.Context) ([]Action, error) {
		if err := s.before(ctx); err != nil {
			return nil, err
		}
		return s.maps.Decide(in)
	}}}, nil
}

// stamp is a filter that adds a label.
func stamp(key, value string) func(*Options) {
	return func(o *Options) {
		o.Filter = func(_ context.Context, _, _ string, local, _ client.Object) (map[string]string, map[string]string, error) {
			return labels.Merge(local.GetLabels(), labels.Set{key: value}), local.GetAnnotations(), nil
		}
	}
}

func (w *env) remoteLabels(ctx context.Context, name string) map[string]string {
	cm, _ := get(ctx, w.remote.WithWatch, "shop-rome", name, &corev1.ConfigMap{})
	return cm.Labels
}

func (w *env) remoteGone(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, ok := get(t.Context(), w.remote.WithWatch, "shop-rome", name, &corev1.ConfigMap{})
		return !ok
	}, soon, tick, "remote ConfigMap %s is gone", name)
}

func TestAFollowerWatchesAndWritesNothing(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, shared{}, pods{})
	require.Eventually(t, w.engine.Settled, soon, tick, "what follows does not wait for what the leader does")
	require.NoError(t, local.Create(t.Context(), localPod("shop", "web")))
	require.Eventually(t, func() bool { return remote.count("create ShadowPod") == 1 }, soon, tick, "pods are every virtual kubelet's own")

	w.engine.PoliciesChanged()
	assert.Zero(t, local.count("watch ConfigMapList")+remote.count("watch ConfigMapList"), "nothing is held")
	assert.Zero(t, remote.count("patch ConfigMap"))
	assert.Empty(t, w.engine.Local("configmap"))
	assert.Nil(t, w.engine.LocalObject("configmap", "shop", "settings"))

	w.engine.Lead(true)
	w.remoteData(t, "settings", "1")
	assert.NotNil(t, w.engine.LocalObject("configmap", "shop", "settings"))
	watches := remote.openWatches()

	w.engine.Lead(false)
	require.Eventually(t, func() bool { return remote.openWatches() == watches-1 }, soon, tick, "nothing is held any more")
	assert.Equal(t, 1, remote.count("create ShadowPod"), "pods are not touched")
	assert.Zero(t, remote.count("delete ShadowPod")+local.count("delete Pod")+local.count("patch/status Pod"))
}

func TestALeaderReflectsNamespacesThatAreMappedLater(t *testing.T) {
	local := newCluster(namespaceMap(nil), localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, newCluster(), shared{})
	w.engine.Lead(true)
	require.Eventually(t, w.engine.Settled, soon, tick)
	w.remap(t, map[string]string{"shop": "shop-rome"})
	w.remoteData(t, "settings", "1")
	w.remap(t, nil)
	require.Eventually(t, func() bool { return w.remote.openWatches() == 0 }, soon, tick)
	w.engine.Lead(false)
	w.remap(t, map[string]string{"shop": "shop-rome"})
	w.engine.Lead(true)
	w.remoteData(t, "settings", "1")
}

func TestANewLeaderFindsChangesWithoutALeader(t *testing.T) {
	local, remote := mapped(t,
		localMap("stays", map[string]string{"k": "1"}), localMap("changes", map[string]string{"k": "1"}), localMap("goes", map[string]string{"k": "1"}))
	first := start(t, local, remote, shared{})
	second := start(t, local, remote, shared{})
	first.engine.Lead(true)
	for _, name := range []string{"stays", "changes", "goes"} {
		first.remoteData(t, name, "1")
	}
	first.end()
	applied := remote.count("patch ConfigMap")

	changed, _ := get(t.Context(), local.WithWatch, "shop", "changes", &corev1.ConfigMap{})
	changed.Data["k"] = "2"
	require.NoError(t, local.Update(t.Context(), changed))
	require.NoError(t, local.Delete(t.Context(), localMap("goes", nil)))
	require.NoError(t, local.Create(t.Context(), localMap("comes", map[string]string{"k": "1"})))

	second.engine.Lead(true)
	second.remoteData(t, "changes", "2")
	second.remoteData(t, "comes", "1")
	second.remoteGone(t, "goes")
	second.fence(t, "fence")
	assert.Equal(t, applied+3, remote.count("patch ConfigMap"), "what did not change is not sent")
	assert.Equal(t, 1, remote.count("delete ConfigMap"))
	assert.Empty(t, second.journal.all())
}

func TestALostLeadershipCancelsRequests(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	deciding, ended := make(chan struct{}), make(chan error, 1)
	w := start(t, local, remote, shared{before: func(ctx context.Context) error {
		select {
		case deciding <- struct{}{}:
			<-ctx.Done()
			ended <- ctx.Err()
		default:
		}
		return nil
	}})
	w.engine.Lead(true)
	<-deciding
	w.engine.Lead(false)
	require.ErrorIs(t, <-ended, context.Canceled)
	w.engine.Lead(true)
	w.remoteData(t, "settings", "1")
	assert.Empty(t, w.journal.all())
}

func TestTwoLeadersConverge(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	first := startWith(t, local, remote, stamp("decided-by", "first"), shared{})
	second := startWith(t, local, remote, stamp("decided-by", "second"), shared{})
	first.engine.Lead(true)
	second.engine.Lead(true)
	first.remoteData(t, "settings", "1")
	source, _ := get(t.Context(), local.WithWatch, "shop", "settings", &corev1.ConfigMap{})
	source.Data["k"] = "2"
	require.NoError(t, local.Update(t.Context(), source))
	first.remoteData(t, "settings", "2")

	// The remaining leader corrects the writes of the other.
	first.engine.Lead(false)
	require.Eventually(t, func() bool { return second.remoteLabels(t.Context(), "settings")["decided-by"] == "second" }, soon, tick)
	first.engine.Lead(true)
	require.NoError(t, local.Delete(t.Context(), source))
	first.remoteGone(t, "settings")
	require.NoError(t, local.Create(t.Context(), localMap("settings", map[string]string{"k": "3"})))
	first.engine.Lead(false)
	second.remoteData(t, "settings", "3")
	require.Eventually(t, func() bool { return second.remoteLabels(t.Context(), "settings")["decided-by"] == "second" }, soon, tick)
}

func TestALeaderForgetsItsAppliesOfAnEarlierTerm(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	first := start(t, local, remote, shared{})
	second := startWith(t, local, remote, stamp("added-by", "second"), shared{})
	first.engine.Lead(true)
	first.remoteData(t, "settings", "1")
	first.fence(t, "fence-1")
	first.engine.Lead(false)

	second.engine.Lead(true)
	require.Eventually(t, func() bool { return second.remoteLabels(t.Context(), "settings")["added-by"] == "second" }, soon, tick)
	second.engine.Lead(false)

	// Everything that the first wants is there; that there is more, only an apply takes away.
	first.engine.Lead(true)
	require.Eventually(t, func() bool {
		_, added := first.remoteLabels(t.Context(), "settings")["added-by"]
		return !added
	}, soon, tick)
}

func TestLeaderOnlyExcludesLocalFields(t *testing.T) {
	_, err := New(Options{
		Local: newCluster(), Remote: newCluster(), HomeClusterID: home, ProviderClusterID: provider, NodeName: nodeName,
		TenantNamespace: tenant, Recorder: func(string) Recorder { return &journal{} }, Now: time.Now,
		Definitions: []Definition{contradictory{}},
	})
	assert.ErrorContains(t, err, "definition configmap: LeaderOnly and LocalFields exclude")
}

type contradictory struct{ shared }

func (c contradictory) Resource() Resource {
	resource := c.shared.Resource()
	resource.LocalFields = fields.Everything()
	return resource
}
