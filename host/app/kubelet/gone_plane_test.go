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

// remoteObject returns an empty object with the remote name of a local one.
func remoteObject(local client.Object) client.Object {
	object := reflect.New(reflect.TypeOf(local).Elem()).Interface().(client.Object)
	object.SetNamespace("shop-rome")
	object.SetName(local.GetName())
	return object
}

func (f *faults) awaitStep(t *testing.T, local client.Object, step string) {
	t.Helper()
	planetest.Until(t, func(t planetest.T) bool {
		object := remoteObject(local)
		require.NoError(t, f.milan.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		return object.GetLabels()["step"] == step
	}, soon, tick, "the %T %s reaches the provider", local, local.GetName())
}

// All watches of a virtual kubelet end, objects are deleted in both clusters, and the watches
// that continue are answered with 410 Gone.
func TestLongExpiredWatchesAfterDeletions(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	deleted, replaced, lost, stays := f.runPod(t, "deleted"), f.runPod(t, "replaced"), f.runPod(t, "lost"), f.runPod(t, "stays")
	before := map[string]types.UID{}
	for _, name := range []string{"deleted", "replaced", "lost", "stays"} {
		before[name] = f.awaitRemotePod(t, name, "").UID
	}
	removed, vanished := f.reflectEach(t, "deleted"), f.reflectEach(t, "lost")

	f.consumerProxy.Break(faultproxy.TooManyRequests, isWatch)
	f.providerProxy.Break(faultproxy.TooManyRequests, isWatch)
	f.deletePod(t, deleted, ptr.To[int64](0))
	f.deletePod(t, replaced, ptr.To[int64](0))
	replacement := longGracePod("replaced")
	f.create(f.rome, replacement)
	for _, local := range removed {
		require.NoError(t, f.rome.Delete(t.Context(), local))
	}
	// Objects that are still desired are deleted in the provider.
	for _, local := range vanished {
		require.NoError(t, f.milan.Delete(t.Context(), remoteObject(local)))
	}
	shadow := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-rome", Name: "lost"}}
	require.NoError(t, f.milan.Delete(t.Context(), shadow))
	stale := f.awaitTerminating(t, "lost", 600)
	require.NoError(t, f.milan.Delete(t.Context(), stale, client.GracePeriodSeconds(0)))

	consumerWatches, providerWatches := &resumedWatches{paths: map[string]bool{}}, &resumedWatches{paths: map[string]bool{}}
	f.consumerProxy.Break(faultproxy.Gone, consumerWatches.matches)
	f.providerProxy.Break(faultproxy.Gone, providerWatches.matches)
	const local, remote = "/api/v1/namespaces/shop/", "/api/v1/namespaces/shop-rome/"
	consumerWatches.await(t, "/api/v1/pods", "/api/v1/configmaps", "/api/v1/services", local+"secrets")
	providerWatches.await(t, remote+"pods", remote+"configmaps", remote+"secrets", remote+"services", "/apis/offloading.liqo.io/v1beta1/namespaces/shop-rome/shadowpods")

	for i := range removed {
		f.awaitStep(t, vanished[i], "changed")
		f.awaitDeleted(t, f.milan, remoteObject(removed[i]))
	}
	for _, name := range []string{"deleted", "replaced"} {
		// A grace period of zero becomes the shortest one of the remote pod.
		assert.Equal(t, before[name], f.awaitTerminating(t, name, 1).UID)
		require.NoError(t, f.milan.Delete(t.Context(), f.awaitRemotePod(t, name, ""), client.GracePeriodSeconds(0)))
	}
	f.reportRunning(t, replacement, f.awaitRemotePod(t, "replaced", before["replaced"]))
	f.reportRunning(t, lost, f.awaitRemotePod(t, "lost", before["lost"]))
	assert.Equal(t, before["stays"], f.awaitRemotePod(t, "stays", "").UID)
	f.reportRunning(t, stays, f.awaitRemotePod(t, "stays", ""))
	f.awaitExactly(t, "replaced", "lost", "stays")
}
