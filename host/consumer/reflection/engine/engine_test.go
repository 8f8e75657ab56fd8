package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/contest"
)

func localMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: data}
}

func localPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-" + "1"},
		Spec:       corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// remoteData waits until the remote ConfigMap holds the value under "k".
func (w *env) remoteData(t *testing.T, name, want string) *corev1.ConfigMap {
	t.Helper()
	var found *corev1.ConfigMap
	require.Eventually(t, func() bool {
		cm, ok := get(t.Context(), w.remote.WithWatch, "shop-rome", name, &corev1.ConfigMap{})
		found = cm
		return ok && cm.Data["k"] == want
	}, soon, tick, "remote ConfigMap %s with %q", name, want)
	return found
}

// fence waits until everything that was queued before it has been handled: the
// definition has one worker, which takes keys of the background last.
func (w *env) fence(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, w.local.Create(t.Context(), localMap(name, map[string]string{"k": "fence"})))
	w.remoteData(t, name, "fence")
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(w.engine.runners, func(r *runner) bool { return r.queue.Len() > 0 })
	}, soon, tick)
}

func mapped(t *testing.T, objects ...client.Object) (local, remote *cluster) {
	t.Helper()
	return newCluster(append(objects, namespaceMap(map[string]string{"shop": "shop-rome"}))...), newCluster()
}

func TestMirrorLifecycle(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, maps{})

	cm := w.remoteData(t, "settings", "1")
	assert.Equal(t, home, cm.Labels[offloadingv1beta1.OriginLabel])

	// An update of the source arrives, keys removed there are removed here.
	source, _ := get(t.Context(), local.WithWatch, "shop", "settings", &corev1.ConfigMap{})
	source.Data = map[string]string{"k": "2", "new": "x"}
	require.NoError(t, local.Update(t.Context(), source))
	w.remoteData(t, "settings", "2")
	source.Data = map[string]string{"k": "3"}
	require.NoError(t, local.Update(t.Context(), source))
	assert.NotContains(t, w.remoteData(t, "settings", "3").Data, "new")

	// Changes in the provider are reverted, deleted objects are created again.
	cm, _ = get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
	cm.Data["k"] = "drifted"
	require.NoError(t, remote.Update(t.Context(), cm))
	w.remoteData(t, "settings", "3")
	require.NoError(t, remote.Delete(t.Context(), cm))
	w.remoteData(t, "settings", "3")

	require.NoError(t, local.Delete(t.Context(), source))
	require.Eventually(t, func() bool {
		_, ok := get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
		return !ok
	}, soon, tick)
	assert.Empty(t, w.journal.all())
}

func TestAnUnchangedObjectCostsNoRequest(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, maps{})
	w.remoteData(t, "settings", "1")
	w.fence(t, "fence-1")
	before := remote.count("patch ConfigMap")

	// An event without a difference: the source is written, the content is the same.
	source, _ := get(t.Context(), local.WithWatch, "shop", "settings", &corev1.ConfigMap{})
	source.Finalizers = []string{"example.com/irrelevant"}
	require.NoError(t, local.Update(t.Context(), source))
	// A key that the provider added stays and costs one apply at most.
	cm, _ := get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
	cm.Labels["provider"] = "added"
	require.NoError(t, remote.Update(t.Context(), cm))
	w.fence(t, "fence-2")
	assert.Equal(t, before+1, remote.count("patch ConfigMap"), "only the fence")
	cm, _ = get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
	assert.Equal(t, "added", cm.Labels["provider"])
}

func TestAContestedObjectIsRevertedWithPauses(t *testing.T) {
	for name, definition := range map[string]Definition{"by an update": maps{}, "by a replacement": frozen{}} {
		t.Run(name, func(t *testing.T) { contestObject(t, definition) })
	}
}

func contestObject(t *testing.T, definition Definition) {
	t.Helper()
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, definition)
	w.remoteData(t, "settings", "1")
	rounds := 0
	require.Eventually(t, func() bool {
		cm, ok := get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
		if ok && cm.Data["k"] == "1" {
			cm.Data["k"] = "other"
			if remote.Update(t.Context(), cm) == nil { // else the engine was quicker
				rounds++
			}
		}
		return len(w.journal.all()) > 0
	}, soon, tick)
	assert.GreaterOrEqual(t, rounds, contest.Reported, "reverted at first")
	for range 2 {
		cm := w.remoteData(t, "settings", "1")
		cm.Data["k"] = "other again"
		require.NoError(t, remote.Update(t.Context(), cm))
	}
	w.remoteData(t, "settings", "1")
	w.fence(t, "fence")
	assert.Equal(t, []string{"shop/settings FailedReflection"}, w.journal.all(), "T76: recorded once, not with each revert")
}

// An object that its owner withdraws and sends again has no other writer: neither pauses nor an event.
func TestAnObjectThatIsWithdrawnAndSentAgainIsNotContested(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, maps{})
	w.remoteData(t, "settings", "1")
	for range contest.Reported + 2 {
		for _, skips := range []bool{true, false} {
			cm, _ := get(t.Context(), local.WithWatch, "shop", "settings", &corev1.ConfigMap{})
			cm.Annotations = nil
			if skips {
				cm.Annotations = map[string]string{offloadingv1beta1.SkipReflectionAnnotation: "true"}
			}
			require.NoError(t, local.Update(t.Context(), cm))
			require.Eventually(t, func() bool {
				_, exists := get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
				return exists != skips
			}, soon, tick)
		}
	}
	w.fence(t, "fence")
	assert.NotContains(t, w.journal.all(), "shop/settings FailedReflection")
}

func TestUnmanagedObjectsAreLeftAlone(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "desired"}))
	unmanaged := localMap("settings", map[string]string{"k": "other"})
	unmanaged.Namespace = "shop-rome"
	require.NoError(t, remote.Create(t.Context(), unmanaged))
	w := start(t, local, remote, maps{})

	w.fence(t, "fence-1")
	source, _ := get(t.Context(), local.WithWatch, "shop", "settings", &corev1.ConfigMap{})
	source.Data["k"] = "desired again"
	require.NoError(t, local.Update(t.Context(), source))
	w.fence(t, "fence-2")

	assert.Equal(t, []string{"shop/settings FailedReflection"}, w.journal.all(), "recorded once")
	assert.NotContains(t, w.remoteData(t, "settings", "other").Labels, offloadingv1beta1.OriginLabel)
	require.NoError(t, local.Delete(t.Context(), source))
	w.fence(t, "fence-3")
	w.remoteData(t, "settings", "other")
}

func TestSkippedObjectsAreWithdrawn(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, maps{})
	w.remoteData(t, "settings", "1")
	source, _ := get(t.Context(), local.WithWatch, "shop", "settings", &corev1.ConfigMap{})
	source.Annotations = map[string]string{offloadingv1beta1.SkipReflectionAnnotation: ""}
	require.NoError(t, local.Update(t.Context(), source))
	require.Eventually(t, func() bool {
		_, ok := get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
		return !ok
	}, soon, tick)
	w.fence(t, "fence")
	assert.Equal(t, []string{"shop/settings ReflectionDisabled"}, w.journal.all(), "recorded once (T52)")
}

func TestAnEventIsRecordedOnceWhileTheRemoteObjectEnds(t *testing.T) {
	finalizers := func(value string) client.Patch {
		return client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+value+`}}`))
	}
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, remote, maps{})
	object := w.remoteData(t, "settings", "1")
	require.NoError(t, remote.Patch(t.Context(), object, finalizers(`["example.com/of-another-writer"]`)))
	source, _ := get(t.Context(), local.WithWatch, "shop", "settings", &corev1.ConfigMap{})
	source.Annotations = map[string]string{offloadingv1beta1.SkipReflectionAnnotation: ""}
	require.NoError(t, local.Update(t.Context(), source))
	require.Eventually(t, func() bool {
		found, ok := get(t.Context(), remote.WithWatch, "shop-rome", "settings", &corev1.ConfigMap{})
		return ok && found.DeletionTimestamp != nil
	}, soon, tick)
	source.Data["k"] = "2"
	require.NoError(t, local.Update(t.Context(), source))
	w.fence(t, "fence-1")
	require.NoError(t, remote.Patch(t.Context(), object, finalizers("null")))
	w.fence(t, "fence-2")
	assert.Equal(t, []string{"shop/settings ReflectionDisabled"}, w.journal.all(), "recorded once (T52)")
}

func TestFaults(t *testing.T) {
	gr := schema.GroupResource{Resource: "configmaps"}
	tests := map[string]struct {
		fault      error
		times      int
		wantEvents []string
	}{
		"a lost link is retried in silence":   {fault: errors.New("connection refused"), times: 3},
		"a busy server is retried in silence": {fault: apierrors.NewTooManyRequests("busy", 0), times: 2},
		"a failing server too":                {fault: apierrors.NewInternalError(errors.New("etcd")), times: 2},
		"a refusal is retried and recorded once": {
			fault: apierrors.NewForbidden(gr, "settings", errors.New("quota exceeded")), times: 3,
			wantEvents: []string{"shop/settings FailedReflection"},
		},
		"a namespace on its way out is retried in silence": {
			fault: &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: "is being terminated",
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
			}}, times: 2,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
			for range tc.times {
				remote.fail("patch ConfigMap", tc.fault)
			}
			w := start(t, local, remote, maps{})
			w.remoteData(t, "settings", "1")
			assert.Equal(t, tc.times+1, remote.count("patch ConfigMap"))
			assert.ElementsMatch(t, tc.wantEvents, w.journal.all())
		})
	}
}

func TestEveryVerbIsRetried(t *testing.T) {
	unavailable := apierrors.NewServiceUnavailable("etcd")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", errors.New("the UID is another"))
	local, remote := mapped(t)
	remote.fail("create ShadowPod", errors.New("connection refused"))
	local.fail("patch Pod", conflict)
	local.fail("patch/status Pod", unavailable, conflict)
	remote.fail("delete ShadowPod", unavailable)
	w := start(t, local, remote, pods{})
	source := localPod("shop", "web")
	require.NoError(t, local.Create(t.Context(), source))
	require.Eventually(t, func() bool { return remote.count("create ShadowPod") == 2 }, soon, tick)
	there := localPod("shop-rome", "web")
	there.Labels = labels.Merge(owned, labels.Set{offloadingv1beta1.NodeNameLabel: nodeName})
	there.Status.Phase = corev1.PodRunning
	require.NoError(t, remote.Create(t.Context(), there))
	require.Eventually(t, func() bool {
		pod, _ := get(t.Context(), local.WithWatch, "shop", "web", &corev1.Pod{})
		return pod.Status.Phase == corev1.PodRunning
	}, soon, tick)
	require.NoError(t, local.Delete(t.Context(), source))
	require.Eventually(t, func() bool {
		_, ok := get(t.Context(), remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
		return !ok
	}, soon, tick)
	assert.Equal(t, 2, remote.count("delete ShadowPod"))
	assert.Equal(t, 3, local.count("patch/status Pod"))
	assert.Empty(t, w.journal.all(), "a slow or unreachable server is not recorded")
}

func TestAFailedWatchIsRetried(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	remote.fail("watch ConfigMapList", apierrors.NewInternalError(errors.New("etcd")))
	w := start(t, local, remote, maps{})
	w.remoteData(t, "settings", "1")
}

func TestNamespacesComeAndGo(t *testing.T) {
	local := newCluster(namespaceMap(nil), localMap("settings", map[string]string{"k": "1"}), localPod("shop", "web"))
	remote := newCluster()
	w := start(t, local, remote, maps{}, pods{})
	require.Eventually(t, w.engine.Settled, soon, tick)
	require.Eventually(t, func() bool { return len(w.journal.all()) == 1 }, soon, tick, "the pod gets an event")
	require.Zero(t, remote.openWatches(), "no namespace is watched")

	// Mapped: what was there before is reflected without a further event.
	w.remap(t, map[string]string{"shop": "shop-rome"})
	w.remoteData(t, "settings", "1")
	require.Eventually(t, func() bool {
		_, ok := get(t.Context(), remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
		return ok
	}, soon, tick)
	to, ok := w.engine.RemoteNamespace("shop")
	assert.True(t, ok)
	assert.Equal(t, "shop-rome", to)

	// Mapped elsewhere: taken down there, up here.
	w.remap(t, map[string]string{"shop": "other"})
	require.Eventually(t, func() bool {
		_, ok := get(t.Context(), remote.WithWatch, "other", "settings", &corev1.ConfigMap{})
		return ok
	}, soon, tick)

	// Not mapped: informers stop, the pod falls back.
	w.remap(t, nil)
	require.Eventually(t, func() bool { return remote.openWatches() == 0 }, soon, tick, "remote informers stop")
	require.Eventually(t, func() bool { return len(w.journal.all()) == 2 }, soon, tick)
	_, ok = w.engine.RemoteNamespace("shop")
	assert.False(t, ok)
}

func TestNoEventBeforeTheMappingIsKnown(t *testing.T) {
	local := newCluster(namespaceMap(map[string]string{"shop": "shop-rome"}), localPod("shop", "web"), localPod("other", "db"))
	local.deny(tenant, errors.New("connection refused"))
	remote := newCluster()
	for range 3 {
		remote.fail("watch ShadowPodList", errors.New("connection refused"))
	}
	w := start(t, local, remote, pods{})
	require.Eventually(t, func() bool { return len(w.engine.Local("pod")) == 2 && local.count("list NamespaceMapList") > 0 }, soon, tick)
	assert.False(t, w.engine.Settled())
	assert.Empty(t, w.journal.all())
	local.deny(tenant, nil)
	require.Eventually(t, func() bool { return len(w.journal.all()) > 0 }, soon, tick)
	assert.True(t, w.engine.Settled())
	w.awaitShadow(t, "shop-rome", "web")
	assert.Equal(t, []string{"other/db ReflectionDisabled"}, w.journal.all())
}

func TestTwoNamespacesCannotShareARemoteNamespace(t *testing.T) {
	local := newCluster(namespaceMap(map[string]string{"shop": "shop-rome", "shop2": "shop-rome"}),
		localMap("settings", map[string]string{"k": "1"}), localPod("shop2", "web"))
	w := start(t, local, newCluster(), maps{}, pods{})
	w.remoteData(t, "settings", "1")
	_, ok := w.engine.RemoteNamespace("shop2")
	assert.False(t, ok)
	require.Eventually(t, func() bool { return len(w.journal.all()) == 1 }, soon, tick, "its pods get an event")
}

func TestTheMapOfThePeerIsIgnored(t *testing.T) {
	inverse := namespaceMap(map[string]string{"shop-milan": "shop"})
	inverse.Name = home
	inverse.Labels["liqo.io/remoteID"] = home
	local := newCluster(namespaceMap(map[string]string{"shop": "shop-rome"}), inverse, localMap("settings", map[string]string{"k": "1"}))
	w := start(t, local, newCluster(), maps{})
	w.remoteData(t, "settings", "1")
	_, ok := w.engine.RemoteNamespace("shop-milan")
	assert.False(t, ok, "T55")
}

func TestAStatusIsWrittenInOneRequest(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"))
	w := start(t, local, remote, pods{})
	require.Eventually(t, func() bool { return remote.count("create ShadowPod") == 1 }, soon, tick)
	there := localPod("shop-rome", "web")
	there.Labels = labels.Merge(owned, labels.Set{offloadingv1beta1.NodeNameLabel: nodeName})
	there.Status.Phase = corev1.PodRunning
	require.NoError(t, remote.Create(t.Context(), there))
	require.Eventually(t, func() bool {
		pod, _ := get(t.Context(), local.WithWatch, "shop", "web", &corev1.Pod{})
		return pod.Status.Phase == corev1.PodRunning
	}, soon, tick)

	// The same status again, and a pod of another virtual node: nothing is sent.
	there.Annotations = map[string]string{"touched": "yes"}
	require.NoError(t, remote.Update(t.Context(), there))
	require.NoError(t, local.Create(t.Context(), localPod("shop", "db")))
	require.Eventually(t, func() bool { return remote.count("create ShadowPod") == 2 }, soon, tick)
	assert.Equal(t, 1, local.count("patch/status Pod"))
	_ = w
}

func TestAShadowPodOfAnotherVirtualNodeIsAwaited(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"))
	other := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop-rome", Name: "web",
		Labels: labels.Merge(owned, labels.Set{offloadingv1beta1.NodeNameLabel: "another-node"}),
	}}
	require.NoError(t, remote.Create(t.Context(), other))
	w := start(t, local, remote, pods{})
	require.Eventually(t, func() bool { return remote.count("get ShadowPod") > 0 }, soon, tick)
	assert.Zero(t, local.count("patch Pod"))
	require.NoError(t, remote.Delete(t.Context(), other))
	require.Eventually(t, func() bool {
		sp, ok := get(t.Context(), remote.WithWatch, "shop-rome", "web", &offloadingv1beta1.ShadowPod{})
		return ok && sp.Labels[offloadingv1beta1.NodeNameLabel] == nodeName
	}, soon, tick)
	assert.Empty(t, w.journal.all())
}

func TestPoliciesChangedDecidesAgain(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"))
	allowed := func(in Input) bool { return in.Facts.PolicyRevision > 0 }
	w := start(t, local, remote, pods{decide: func(in Input) ([]Action, error) {
		if in.Remote == nil && !allowed(in) {
			return []Action{RecordEvent{Type: EventWarning, Reason: "Denied", Message: "no"}}, nil
		}
		return pods{}.Decide(in)
	}})
	require.Eventually(t, func() bool { return len(w.journal.all()) == 1 }, soon, tick)
	assert.Zero(t, remote.count("create ShadowPod"))
	w.engine.PoliciesChanged()
	require.Eventually(t, func() bool { return remote.count("create ShadowPod") == 1 }, soon, tick)
}

func TestMemoryAndErrorsOfADefinition(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"))
	w := start(t, local, remote, pods{decide: func(in Input) ([]Action, error) {
		tries, _ := in.Memory.(int)
		if tries == 0 {
			return []Action{Remember{Value: 1}, Requeue{After: tick}}, nil
		}
		if in.Remote == nil {
			return []Action{Remember{Value: tries + 1}, Create{Object: shadow(in)}}, nil
		}
		return nil, errors.New("a policy trapped")
	}})
	require.Eventually(t, func() bool { return remote.count("create ShadowPod") == 1 }, soon, tick)
	source, _ := get(t.Context(), local.WithWatch, "shop", "web", &corev1.Pod{})
	source.Annotations = map[string]string{"touched": "yes"}
	require.NoError(t, local.Update(t.Context(), source))
	require.Eventually(t, func() bool { return len(w.journal.all()) == 1 }, soon, tick)
	assert.Equal(t, []string{"shop/web FailedReflection"}, w.journal.all())
}

func TestRunStopsAllGoroutines(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"))
	w := start(t, local, remote, maps{}, pods{})
	require.Eventually(t, func() bool { return remote.count("create ShadowPod") == 1 }, soon, tick)
	w.end()
	assert.Eventually(t, func() bool { return local.openWatches() == 0 && remote.openWatches() == 0 }, soon, tick)
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "client")
	c := newCluster()
	_, err = New(Options{Local: c, Remote: c})
	require.ErrorContains(t, err, "IDs")
}
