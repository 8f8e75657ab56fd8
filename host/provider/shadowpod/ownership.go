package shadowpod

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	// firstPause and longestPause bound the pause before a change of a pod's metadata that
	// another writer has reverted.
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// ownershipLabels and ownershipAnnotations are the keys by which this controller and the
// virtual kubelet recognize a pod.
var (
	ownershipLabels = []string{
		offloadingv1beta1.ManagedByLabel, offloadingv1beta1.OriginLabel,
		offloadingv1beta1.DestinationLabel, offloadingv1beta1.NodeNameLabel,
	}
	ownershipAnnotations = []string{remote.LocalPodUIDAnnotation}
)

// ownershipOf returns a pod that has only the ownership labels and annotations of the given
// one.
func ownershipOf(pod *corev1.Pod) *corev1.Pod {
	pick := func(all map[string]string, keys []string) map[string]string {
		picked := map[string]string{}
		for _, key := range keys {
			if value, ok := all[key]; ok {
				picked[key] = value
			}
		}
		return picked
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels: pick(pod.Labels, ownershipLabels), Annotations: pick(pod.Annotations, ownershipAnnotations),
	}}
}

// attempt is a change of a pod's metadata that was sent.
type attempt struct {
	pod   types.UID
	patch string
	at    time.Time
	pause time.Duration
}

// pauseBefore returns the pause before a change of a pod's metadata that was sent before and
// reverted by another writer. When it returns 0, it records that the change is sent now.
func (r *Reconciler) pauseBefore(key types.NamespacedName, pod types.UID, patch []byte) time.Duration {
	now := r.Clock.Now()
	next := attempt{pod: pod, patch: string(patch), at: now, pause: firstPause}
	stored, _ := r.attempts.Load(key)
	if last, ok := stored.(attempt); ok && last.pod == pod && last.patch == next.patch {
		passed := now.Sub(last.at)
		if passed < last.pause {
			return last.pause - passed
		}
		if passed < 2*longestPause {
			next.pause = min(2*last.pause, longestPause)
		}
	}
	r.attempts.Store(key, next)
	return 0
}

// withoutKeys returns the entries of m whose keys are not in keys.
func withoutKeys(m, keys map[string]string) map[string]string {
	rest := maps.Clone(m)
	maps.DeleteFunc(rest, func(key, _ string) bool { _, ok := keys[key]; return ok })
	return rest
}
