package engine

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// remoteMap is a ConfigMap that an earlier start reflected.
func remoteMap(name string) *corev1.ConfigMap {
	cm := localMap(name, map[string]string{"k": "1"})
	cm.Namespace, cm.Labels = "shop-rome", owned
	return cm
}

func remoteShadow(name string) *offloadingv1beta1.ShadowPod {
	s := shadow(Input{Key: Key{Name: name}})
	s.Namespace = "shop-rome"
	return s
}

// A first list may come from an API server that is behind: what it lacks is deleted in the
// provider only if it is really gone.
func TestObjectsMissingFromAStaleListAreNotDeleted(t *testing.T) {
	elsewhere := localPod("shop", "elsewhere")
	elsewhere.Spec.NodeName = "another-node"
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}), localPod("shop", "web"), elsewhere)
	for _, object := range []client.Object{
		remoteMap("settings"), remoteMap("orphan"), remoteShadow("web"), remoteShadow("orphan"), remoteShadow("elsewhere"),
	} {
		require.NoError(t, remote.Create(t.Context(), object))
	}
	local.hide("settings", true)
	local.hide("web", true)
	w := start(t, local, remote, maps{}, pods{})

	gone := func(name string, into client.Object) func() bool {
		return func() bool {
			_, ok := get(t.Context(), remote.WithWatch, "shop-rome", name, into)
			return !ok
		}
	}
	require.Eventually(t, gone("orphan", &corev1.ConfigMap{}), soon, tick, "an orphan goes")
	require.Eventually(t, gone("orphan", &offloadingv1beta1.ShadowPod{}), soon, tick, "an orphan goes")
	require.Eventually(t, gone("elsewhere", &offloadingv1beta1.ShadowPod{}), soon, tick, "a pod of another node is not reflected")

	// The keys of both were decided: they are asked about again and again.
	require.Eventually(t, func() bool { return local.count("get ConfigMap") >= 3 && local.count("get Pod") >= 4 }, soon, tick)
	assert.False(t, gone("settings", &corev1.ConfigMap{})())
	assert.False(t, gone("web", &offloadingv1beta1.ShadowPod{})())

	// The watch catches up.
	source, _ := get(t.Context(), local.WithWatch, "shop", "settings", &corev1.ConfigMap{})
	source.Data["k"] = "2"
	require.NoError(t, local.Update(t.Context(), source))
	w.remoteData(t, "settings", "2")
	assert.Empty(t, w.journal.all())
}

// While the API server gives no answer, nothing is deleted.
func TestAnUnconfirmedAbsenceDeletesNothing(t *testing.T) {
	local, remote := mapped(t)
	require.NoError(t, remote.Create(t.Context(), remoteMap("orphan")))
	local.fail("get ConfigMap", errors.New("connection refused"),
		apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "orphan", errors.New("no binding")))
	start(t, local, remote, maps{})
	require.Eventually(t, func() bool {
		_, ok := get(t.Context(), remote.WithWatch, "shop-rome", "orphan", &corev1.ConfigMap{})
		return !ok
	}, soon, tick)
	assert.Equal(t, 3, local.count("get ConfigMap"), "two answers were no answer")
	assert.Equal(t, 1, remote.count("delete ConfigMap"))
}

// An orphan is asked about once, however often its key is decided.
func TestAnAbsenceIsConfirmedOnce(t *testing.T) {
	local, remote := mapped(t)
	orphan := remoteMap("orphan")
	orphan.Finalizers = []string{"example.com/held"}
	require.NoError(t, remote.Create(t.Context(), orphan))
	w := start(t, local, remote, maps{})
	require.Eventually(t, func() bool { return remote.count("delete ConfigMap") == 1 }, soon, tick)
	for i := range 3 {
		held, _ := get(t.Context(), remote.WithWatch, "shop-rome", "orphan", &corev1.ConfigMap{})
		held.Labels = labels.Merge(owned, labels.Set{"touched": string(rune('a' + i))})
		require.NoError(t, remote.Update(t.Context(), held))
		w.fence(t, "fence-"+string(rune('a'+i)))
	}
	assert.Equal(t, 1, local.count("get ConfigMap"))

	// It comes back and goes again: that is another question.
	held, _ := get(t.Context(), remote.WithWatch, "shop-rome", "orphan", &corev1.ConfigMap{})
	held.Finalizers = nil
	require.NoError(t, remote.Update(t.Context(), held))
	require.NoError(t, local.Create(t.Context(), localMap("orphan", map[string]string{"k": "2"})))
	w.remoteData(t, "orphan", "2")
	require.NoError(t, local.Delete(t.Context(), localMap("orphan", nil)))
	require.Eventually(t, func() bool { return local.count("get ConfigMap") == 2 }, soon, tick)
}

// A NamespaceMap that a stale list lacks does not end the pods of its namespaces.
func TestAStaleListOfNamespaceMapsStopsNothing(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}), localPod("shop", "web"))
	local.hide(provider, true)
	w := start(t, local, remote, maps{}, pods{})
	w.remoteData(t, "settings", "1")
	assert.Empty(t, w.journal.all(), "no pod falls back")

	// What is really unmapped is no longer reflected.
	local.hide(provider, false)
	w.remap(t, nil)
	require.Eventually(t, func() bool { return len(w.journal.all()) == 1 }, soon, tick)
	assert.Equal(t, []string{"shop/web ReflectionDisabled"}, w.journal.all())
}

// While the API server does not answer, a namespace missing from the cache continues.
func TestAFailedReadOfNamespaceMapsStopsNothing(t *testing.T) {
	local, remote := mapped(t, localPod("shop", "web"))
	w := start(t, local, remote, maps{}, pods{})
	require.Eventually(t, w.engine.Settled, soon, tick)
	local.deny(tenant, errors.New("connection refused"))
	w.remap(t, nil)
	asked := local.count("list NamespaceMapList")
	require.Eventually(t, func() bool { return local.count("list NamespaceMapList") > asked+1 }, soon, tick)
	_, mapped := w.engine.RemoteNamespace("shop")
	assert.True(t, mapped)
	local.deny(tenant, nil)
	require.Eventually(t, func() bool { return len(w.journal.all()) == 1 }, soon, tick)
}

// keeper decides about nothing, and reports the keys that it was asked about.
type keeper struct{ asked chan string }

func (keeper) Resource() Resource { return maps{}.Resource() }

func (k keeper) Decide(in Input) ([]Action, error) {
	k.asked <- in.Key.Name
	return []Action{Keep{Reason: "another definition manages the remote object"}}, nil
}

func TestAnAbsenceThatChangesNothingIsNotConfirmed(t *testing.T) {
	local, remote := mapped(t)
	require.NoError(t, remote.Create(t.Context(), remoteMap("kept")))
	asked := make(chan string)
	w := start(t, local, remote, keeper{asked})
	assert.Equal(t, "kept", <-asked)
	w.engine.PoliciesChanged()
	assert.Equal(t, "kept", <-asked, "the first decision is over")
	assert.Zero(t, local.count("get ConfigMap"))
}
