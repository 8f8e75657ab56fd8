package kubelet_test

import (
	"net/http"
	"reflect"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/conformance/testplane/faultproxy"
	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func isWatch(r *http.Request) bool { return r.URL.Query().Has("watch") }

// resumedWatches matches watches that continue from a resource version, and records their
// paths.
type resumedWatches struct {
	mu    sync.Mutex
	paths map[string]bool
}

func (w *resumedWatches) matches(r *http.Request) bool {
	query := r.URL.Query()
	if !isWatch(r) || query.Get("resourceVersion") == "" || query.Get("sendInitialEvents") == "true" {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paths[r.URL.Path] = true
	return true
}

// await waits until watches of all these paths were answered.
func (w *resumedWatches) await(t *testing.T, paths ...string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, path := range paths {
			require.Contains(t, w.paths, path)
		}
		return true
	}, soon, tick, "watches continue from the resource version before the deletions")
}

// reflectEach creates a ConfigMap, a Secret and a Service of a name, and changes each when it
// is reflected. A reflector lists again when its watch ends before the first event.
func (f *faults) reflectEach(t *testing.T, name string) []client.Object {
	t.Helper()
	in := metav1.ObjectMeta{Namespace: "shop", Name: name}
	locals := []client.Object{
		&corev1.ConfigMap{ObjectMeta: in},
		&corev1.Secret{ObjectMeta: in},
		&corev1.Service{ObjectMeta: in, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
	}
	f.create(f.rome, locals...)
	for _, step := range []string{"created", "changed"} {
		for _, local := range locals {
			require.NoError(t, f.rome.Patch(t.Context(), local, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"step":"`+step+`"}}}`))))
		}
		for _, local := range locals {
			f.awaitStep(t, local, step)
		}
	}
	return locals
}

// inProvider returns an empty object with the remote name of a local one.
func inProvider(local client.Object) client.Object {
	there := reflect.New(reflect.TypeOf(local).Elem()).Interface().(client.Object)
	there.SetNamespace("shop-rome")
	there.SetName(local.GetName())
	return there
}

func (f *faults) awaitStep(t *testing.T, local client.Object, step string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		there := inProvider(local)
		require.NoError(t, f.milan.Get(t.Context(), client.ObjectKeyFromObject(there), there))
		return there.GetLabels()["step"] == step
	}, soon, tick, "the %T %s reaches the provider", local, local.GetName())
}

// TestWatchesThatAreGoneAfterDeletions ends all watches of a virtual kubelet, deletes objects
// in both clusters, and answers 410 Gone to the watches that continue from before that.
func TestWatchesThatAreGoneAfterDeletions(t *testing.T) {
	f := newFaults(t)
	deleted, replaced, lost, stays := f.runs(t, "deleted"), f.runs(t, "replaced"), f.runs(t, "lost"), f.runs(t, "stays")
	before := map[string]types.UID{}
	for _, name := range []string{"deleted", "replaced", "lost", "stays"} {
		before[name] = f.remoteAfter(t, name, "").UID
	}
	removed, vanished := f.reflectEach(t, "deleted"), f.reflectEach(t, "lost")

	f.here.Break(faultproxy.TooManyRequests, isWatch)
	f.there.Break(faultproxy.TooManyRequests, isWatch)
	f.deletes(t, deleted, ptr.To[int64](0))
	f.deletes(t, replaced, ptr.To[int64](0))
	again := long("replaced")
	f.create(f.rome, again)
	for _, local := range removed {
		require.NoError(t, f.rome.Delete(t.Context(), local))
	}
	// Objects that the consumer still wants vanish from the provider.
	for _, local := range vanished {
		require.NoError(t, f.milan.Delete(t.Context(), inProvider(local)))
	}
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "lost"}}
	require.NoError(t, f.milan.Delete(t.Context(), shadow))
	stale := f.goes(t, "lost", 600)
	require.NoError(t, f.milan.Delete(t.Context(), stale, client.GracePeriodSeconds(0)))

	here, beyond := &resumedWatches{paths: map[string]bool{}}, &resumedWatches{paths: map[string]bool{}}
	f.here.Break(faultproxy.Gone, here.matches)
	f.there.Break(faultproxy.Gone, beyond.matches)
	const local, there = "/api/v1/namespaces/shop/", "/api/v1/namespaces/shop-rome/"
	here.await(t, "/api/v1/pods", local+"configmaps", local+"secrets", local+"services")
	beyond.await(t, there+"pods", there+"configmaps", there+"secrets", there+"services", "/apis/offloading.liqo.io/v1beta1/namespaces/shop-rome/shadowpods")

	for i := range removed {
		f.awaitStep(t, vanished[i], "changed")
		f.vanishes(t, f.milan, inProvider(removed[i]))
	}
	for _, name := range []string{"deleted", "replaced"} {
		// The local pod was deleted by force (T16): the remote pod gets the shortest period.
		assert.Equal(t, before[name], f.goes(t, name, 1).UID)
		require.NoError(t, f.milan.Delete(t.Context(), f.remoteAfter(t, name, ""), client.GracePeriodSeconds(0)))
	}
	f.awaitRuns(t, again, f.remoteAfter(t, "replaced", before["replaced"]))
	f.awaitRuns(t, lost, f.remoteAfter(t, "lost", before["lost"]))
	assert.Equal(t, before["stays"], f.remoteAfter(t, "stays", "").UID)
	f.awaitRuns(t, stays, f.remoteAfter(t, "stays", ""))
	f.pairs(t, "replaced", "lost", "stays")
}
