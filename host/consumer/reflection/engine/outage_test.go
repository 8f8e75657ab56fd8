package engine

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// After an outage the watch may still show what was before it. What a decision depends on
// is then read from the provider.
func TestObjectsReadBeforeAnOutageAreUnknown(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"))
	there := localPod("shop-rome", "web")
	there.Labels = labels.Merge(owned, labels.Set{offloadingv1beta1.NodeNameLabel: nodeName})
	there.Status.Phase = corev1.PodRunning
	require.NoError(t, remote.Create(t.Context(), there))
	require.NoError(t, remote.Create(t.Context(), remoteShadow("web")))

	type snapshot struct {
		phase   corev1.PodPhase
		unknown bool
	}
	var last atomic.Pointer[snapshot]
	var decided, refreshed atomic.Int64
	w := start(t, local, remote, pods{decide: func(in Input) ([]Action, error) {
		p := &snapshot{unknown: in.Facts.RemoteUnknown}
		if in.Dependent != nil {
			p.phase = in.Dependent.(*corev1.Pod).Status.Phase
		}
		last.Store(p)
		decided.Add(1)
		if p.unknown {
			refreshed.Add(1)
			return []Action{RefreshRemote{}}, nil
		}
		return []Action{Keep{}}, nil
	}})
	is := func(phase corev1.PodPhase, unknown bool) func() bool {
		return func() bool { p := last.Load(); return p != nil && *p == snapshot{phase, unknown} }
	}
	require.Eventually(t, is(corev1.PodRunning, false), soon, tick)
	assert.Zero(t, remote.count("list PodList"), "nothing is read twice while the link works")

	w.engine.Reachable(false)
	remote.mute("Pod", true) // the watch hangs, and so it does when the link is back
	there.Status.Phase = corev1.PodFailed
	require.NoError(t, remote.Status().Update(t.Context(), there))
	before := decided.Load()
	annotatePod(t, local, "1")
	require.Eventually(t, func() bool { return decided.Load() > before }, soon, tick)
	assert.True(t, is(corev1.PodRunning, true)())
	assert.Zero(t, remote.count("list PodList"), "nothing is asked while the provider does not answer")

	w.engine.Reachable(true)
	require.Eventually(t, is(corev1.PodFailed, false), soon, tick, "the real state returns, though no event came")
	assert.Equal(t, 1, remote.count("list PodList"))

	// An outage that comes again makes it unknown again; a pod that has gone meanwhile is seen.
	w.engine.Reachable(false)
	w.engine.Reachable(false)
	require.NoError(t, remote.Delete(t.Context(), there))
	w.engine.Reachable(true)
	w.engine.Reachable(true)
	require.Eventually(t, is("", false), soon, tick)
	assert.Equal(t, 2, remote.count("list PodList"))
}

// annotatePod makes an event of the local pod.
func annotatePod(t *testing.T, local *cluster, value string) {
	t.Helper()
	source, _ := get(t.Context(), local.WithWatch, "shop", "web", &corev1.Pod{})
	source.Annotations = map[string]string{"touched": value}
	require.NoError(t, local.Update(t.Context(), source))
}
