package engine

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Answers and events come on different connections: either may be late.

func TestAPodIsCreatedOnceIfItsEventsAreLate(t *testing.T) {
	local, remote := mapped(t)
	w := start(t, local, remote, pods{})
	require.Eventually(t, w.engine.Settled, soon, tick)
	remote.mute("ShadowPod", true)
	require.NoError(t, local.Create(t.Context(), localPod("shop", "web")))
	require.Eventually(t, func() bool {
		pod := w.engine.LocalObject("pod", "shop", "web")
		return pod != nil && pod.GetLabels()["offloaded"] == "true"
	}, soon, tick)

	// Further events find the creation and the label, though no watch brought them.
	source, _ := get(t.Context(), local.WithWatch, "shop", "web", &corev1.Pod{})
	for i := range 5 {
		source.Annotations = map[string]string{"touched": fmt.Sprint(i)}
		require.NoError(t, local.Update(t.Context(), source))
	}
	require.Eventually(t, func() bool {
		return w.engine.LocalObject("pod", "shop", "web").GetAnnotations()["touched"] == "4"
	}, soon, tick)
	require.NoError(t, local.Delete(t.Context(), source))
	require.Eventually(t, func() bool { return remote.count("delete ShadowPod") == 1 }, soon, tick)
	assert.Equal(t, 1, remote.count("create ShadowPod"))
	assert.Equal(t, 1, local.count("patch Pod"))
}

func TestADeletionBeforeTheAnswerToAWriteIsNotLost(t *testing.T) {
	local, remote := mapped(t, localMap("settings", map[string]string{"k": "1"}))
	var w *env
	started := make(chan struct{})
	var once sync.Once
	remote.beforeAnswer = func(written client.Object) {
		once.Do(func() {
			<-started
			_, caches, _ := w.engine.lookUp("shop", w.engine.runners[0])
			there := caches.remote
			known := func() bool { return there.Get("shop-rome", "settings") != nil }
			assert.Eventually(t, known, soon, tick)
			if err := remote.WithWatch.Delete(t.Context(), written.DeepCopyObject().(client.Object)); err != nil {
				t.Errorf("deleting what was written: %v", err)
			}
			assert.Eventually(t, func() bool { return !known() }, soon, tick)
		})
	}
	w = start(t, local, remote, maps{})
	close(started)
	require.Eventually(t, func() bool { return remote.count("patch ConfigMap") == 2 }, soon, tick)
	w.remoteData(t, "settings", "1")
}

// The status is decided before the deletion and written after it: only the event of the deletion
// says that there is something to decide.
func TestADeletionInTheAnswerToAWriteIsDecided(t *testing.T) {
	pod := localPod("shop", "web")
	pod.Finalizers = []string{"test/keeps-it"}
	local, remote := mapped(t, pod)
	release := local.hold("Pod")
	var evict, end sync.Once
	isDecided := make(chan struct{})
	w := start(t, local, remote, pods{decide: func(in Input) ([]Action, error) {
		pod, ok := in.Local.(*corev1.Pod)
		switch {
		case !ok:
		case pod.DeletionTimestamp != nil:
			end.Do(func() { close(isDecided) })
		default:
			var err error
			evict.Do(func() { err = local.WithWatch.Delete(t.Context(), pod.DeepCopy()) })
			status := pod.Status.DeepCopy()
			status.Phase = corev1.PodRunning
			return []Action{PatchLocalStatus{Old: &pod.Status, New: status}}, err
		}
		return []Action{Keep{}}, nil
	}})
	require.Eventually(t, func() bool {
		answer := w.engine.LocalObject("pod", "shop", "web")
		return answer != nil && answer.GetDeletionTimestamp() != nil
	}, soon, tick)
	release()
	require.Eventually(t, func() bool {
		select {
		case <-isDecided:
			return true
		default:
			return false
		}
	}, soon, tick)
}
