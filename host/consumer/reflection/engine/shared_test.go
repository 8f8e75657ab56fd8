package engine

import (
	"context"
	"errors"
	stdmaps "maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// podsOf is [pods] of another virtual node. It records which names it has decided about.
type podsOf struct {
	pods
	node string

	mu      *sync.Mutex
	decided map[string]int
}

func newPodsOf(node string) *podsOf {
	return &podsOf{node: node, mu: &sync.Mutex{}, decided: map[string]int{}}
}

func (p *podsOf) Resource() Resource {
	resource := p.pods.Resource()
	resource.LocalFields = fields.OneTermEqualSelector("spec.nodeName", p.node)
	resource.RemoteLabels = labels.Set{offloadingv1beta1.NodeNameLabel: p.node}
	return resource
}

func (p *podsOf) Decide(in Input) ([]Action, error) {
	p.mu.Lock()
	p.decided[in.Key.Name]++
	p.mu.Unlock()
	actions, err := p.pods.Decide(in)
	for _, action := range actions {
		if create, ok := action.(Create); ok {
			create.Object.SetLabels(labels.Merge(create.Object.GetLabels(), labels.Set{offloadingv1beta1.NodeNameLabel: p.node}))
		}
	}
	return actions, err
}

// names returns the names that were decided about.
func (p *podsOf) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(stdmaps.Keys(p.decided))
}

func podOnNode(node, name string) *corev1.Pod {
	pod := localPod("shop", name)
	pod.Spec.NodeName = node
	return pod
}

// remotePodOf is the pod that the provider makes of a ShadowPod.
func remotePodOf(node, name string) *corev1.Pod {
	pod := localPod("shop-rome", name)
	pod.Labels = labels.Merge(owned, labels.Set{offloadingv1beta1.NodeNameLabel: node})
	return pod
}

// startShared runs one engine for each definition. They share their informers.
func startShared(t *testing.T, local, remote *cluster, definitions ...*podsOf) []*env {
	t.Helper()
	informers := NewInformers(t.Context())
	var all []*env
	for _, definition := range definitions {
		all = append(all, startWith(t, local, remote, func(o *Options) { o.NodeName, o.Informers = definition.node, informers }, definition))
	}
	return all
}

// nodeOfShadow returns the virtual node of a ShadowPod, "" for none.
func nodeOfShadow(ctx context.Context, remote *cluster, name string) string {
	shadow, ok := get(ctx, remote.WithWatch, "shop-rome", name, &offloadingv1beta1.ShadowPod{})
	if !ok {
		return ""
	}
	return shadow.Labels[offloadingv1beta1.NodeNameLabel]
}

func TestEnginesShareRemoteWatches(t *testing.T) {
	local, remote := mapped(t, podOnNode("a", "web-a"), podOnNode("b", "web-b"))
	a, b := newPodsOf("a"), newPodsOf("b")
	both := startShared(t, local, remote, a, b)
	for _, node := range []string{"a", "b"} {
		require.Eventually(t, func() bool { return nodeOfShadow(t.Context(), remote, "web-"+node) == node }, soon, tick)
		there := remotePodOf(node, "web-"+node)
		require.NoError(t, remote.Create(t.Context(), there))
		there.Status.Phase = corev1.PodRunning
		require.NoError(t, remote.Status().Update(t.Context(), there))
	}
	for _, name := range []string{"web-a", "web-b"} {
		require.Eventually(t, func() bool {
			pod, _ := get(t.Context(), local.WithWatch, "shop", name, &corev1.Pod{})
			return pod.Status.Phase == corev1.PodRunning
		}, soon, tick)
	}
	const ofPods = 2 // ShadowPods and pods
	assert.Equal(t, ofPods, remote.openWatches())
	assert.Equal(t, 3, local.openWatches(), "the NamespaceMap and the pods of each node")
	assert.Equal(t, []string{"web-a"}, a.names())
	assert.Equal(t, []string{"web-b"}, b.names())
	assert.Equal(t, 2, remote.count("create ShadowPod"))

	both[0].end()
	require.NoError(t, local.Delete(t.Context(), podOnNode("b", "web-b")))
	require.Eventually(t, func() bool { return nodeOfShadow(t.Context(), remote, "web-b") == "" }, soon, tick, "the other virtual node goes on")
	assert.Equal(t, ofPods, remote.openWatches())
	assert.Equal(t, "a", nodeOfShadow(t.Context(), remote, "web-a"))
	both[1].end()
	require.Eventually(t, func() bool { return remote.openWatches() == 0 && local.openWatches() == 0 }, soon, tick)
}

func TestANamePassesToAnotherVirtualNodeOfTheProcess(t *testing.T) {
	local, remote := mapped(t, podOnNode("a", "web"))
	a, b := newPodsOf("a"), newPodsOf("b")
	startShared(t, local, remote, a, b)
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
	startShared(t, local, remote, newPodsOf("a"), newPodsOf("b"))
	require.Eventually(t, func() bool { return nodeOfShadow(t.Context(), remote, "web") == "a" }, soon, tick)
	shadow, _ := get(t.Context(), remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
	shadow.Labels[offloadingv1beta1.NodeNameLabel] = "b"
	require.NoError(t, remote.Update(t.Context(), shadow))
	require.Eventually(t, func() bool { return nodeOfShadow(t.Context(), remote, "web") == "a" }, soon, tick, "b has no such pod and deletes it")
}

// watchedPhases runs two virtual nodes of one process with a running pod each, "web-a" and "web-b", which read
// the pods again after an outage. phases reports whether they know these phases.
func watchedPhases(t *testing.T) (local, remote *cluster, both []*env, phases func(ofA, ofB string) func() bool) {
	t.Helper()
	local, remote = mapped(t, podOnNode("a", "web-a"), podOnNode("b", "web-b"))
	var seen sync.Map
	a, b := newPodsOf("a"), newPodsOf("b")
	for _, definition := range []*podsOf{a, b} {
		definition.decide = func(in Input) ([]Action, error) {
			if in.Facts.RemoteUnknown {
				return []Action{RefreshRemote{}}, nil
			}
			phase := "absent"
			if pod, ok := in.Dependent.(*corev1.Pod); ok {
				phase = string(pod.Status.Phase)
			}
			seen.Store(in.Key.Name, phase+" "+in.Local.GetAnnotations()["touched"])
			return []Action{Keep{}}, nil
		}
		there := remotePodOf(definition.node, "web-"+definition.node)
		there.Status.Phase = corev1.PodRunning
		require.NoError(t, remote.Create(t.Context(), there))
	}
	both = startShared(t, local, remote, a, b)
	phases = func(ofA, ofB string) func() bool {
		return func() bool {
			phaseOfA, _ := seen.Load("web-a")
			phaseOfB, _ := seen.Load("web-b")
			return phaseOfA == ofA && phaseOfB == ofB
		}
	}
	require.Eventually(t, phases("Running ", "Running "), soon, tick)
	return local, remote, both, phases
}

func TestAnOutageOfOneVirtualNodeDropsNoObjectsOfAnother(t *testing.T) {
	local, remote, both, phases := watchedPhases(t)
	both[0].engine.Reachable(false)
	remote.mute("Pod", true)
	require.NoError(t, remote.Delete(t.Context(), remotePodOf("a", "web-a")))
	both[0].engine.Reachable(true)
	require.Eventually(t, phases("absent ", "Running "), soon, tick)
	pod, _ := get(t.Context(), local.WithWatch, "shop", "web-b", &corev1.Pod{})
	pod.Annotations = map[string]string{"touched": "1"}
	require.NoError(t, local.Update(t.Context(), pod))
	require.Eventually(t, phases("absent ", "Running 1"), soon, tick)
	assert.Equal(t, 1, remote.count("list PodList"))
}

// The virtual nodes of a process check the provider at different times.
func TestAnOutageIsReadOnceForAllVirtualNodes(t *testing.T) {
	_, remote, both, phases := watchedPhases(t)
	for _, node := range both {
		node.engine.Reachable(false)
	}
	remote.mute("Pod", true)
	for _, node := range []string{"a", "b"} {
		require.NoError(t, remote.Delete(t.Context(), remotePodOf(node, "web-"+node)))
	}
	both[0].engine.Reachable(true)
	require.Eventually(t, phases("absent ", "Running "), soon, tick, "b still has an outage")
	both[1].engine.Reachable(true)
	require.Eventually(t, phases("absent ", "absent "), soon, tick)
	assert.Equal(t, 1, remote.count("list PodList"))

	there := remotePodOf("b", "web-b")
	there.Status.Phase = corev1.PodRunning
	require.NoError(t, remote.Create(t.Context(), there))
	both[1].engine.Reachable(false) // after that list
	both[1].engine.Reachable(true)
	require.Eventually(t, phases("absent ", "Running "), soon, tick)
	assert.Equal(t, 2, remote.count("list PodList"))
}

func TestAMissingRightIsRecordedForEachVirtualNode(t *testing.T) {
	local, remote := mapped(t, podOnNode("a", "web-a"), podOnNode("b", "web-b"))
	remote.deny("shop-rome", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")))
	for i, w := range startShared(t, local, remote, newPodsOf("a"), newPodsOf("b")) {
		name := "web-" + string(rune('a'+i))
		require.Eventually(t, func() bool { return slices.Contains(w.journal.all(), "shop/"+name+" FailedReflection") }, soon, tick)
		assert.Equal(t, []string{"shop/" + name + " FailedReflection"}, w.journal.all())
	}
	remote.deny("shop-rome", nil)
	for _, node := range []string{"a", "b"} {
		require.Eventually(t, func() bool { return nodeOfShadow(t.Context(), remote, "web-"+node) == node }, soon, tick)
	}
}

// A virtual node learns of the end of its object also if the object of another one has replaced it
// in the cache, and is not called about other objects.
func TestSubscribersAreCalledAboutObjectsWithTheirLabels(t *testing.T) {
	of := func(node, uid, version string) client.Object {
		object := configMap("web", uid, version)
		object.Labels = map[string]string{offloadingv1beta1.NodeNameLabel: node}
		return object
	}
	for name, tc := range map[string]struct {
		change   func(t *testing.T, s *store)
		ofA, ofB int
	}{
		"an update": {func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Update(of("a", "1", "11")))
		}, 1, 0},
		"another node takes the object over": {func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Update(of("b", "1", "11")))
		}, 1, 1},
		"a list in which another node has the object": {func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Replace([]any{of("b", "1", "11")}, "11"))
		}, 1, 1},
		"a list beside the watch in which another node has the object": {func(t *testing.T, s *store) {
			t.Helper()
			assert.True(t, s.refresh([]any{of("b", "1", "11")}, "11"))
		}, 1, 1},
		"a list beside the watch without the object": {func(t *testing.T, s *store) {
			t.Helper()
			assert.True(t, s.refresh(nil, "11"))
		}, 1, 0},
		"another node creates an object of the name": {func(t *testing.T, s *store) {
			t.Helper()
			s.Assume(of("b", "2", "12"))
			require.NoError(t, s.Delete(of("a", "1", "11")))
			require.NoError(t, s.Add(of("b", "2", "12")))
		}, 1, 0},
		"the deletion": {func(t *testing.T, s *store) {
			t.Helper()
			require.NoError(t, s.Delete(of("a", "1", "11")))
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			calls := map[string]int{}
			i := &informer{subscribers: map[string][]subscriber{}}
			i.store = newStore(Kind{}, i.changed)
			require.NoError(t, i.store.Add(of("a", "1", "10")))
			for _, node := range []string{"a", "b"} {
				i.add(subscriber{role: &role{
					selects: labels.Set{offloadingv1beta1.NodeNameLabel: node}, changed: func(*namespaceCaches, client.Object) { calls[node]++ },
				}})
			}
			tc.change(t, i.store)
			assert.Equal(t, [2]int{tc.ofA, tc.ofB}, [2]int{calls["a"], calls["b"]})
		})
	}
}
