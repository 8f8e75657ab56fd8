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
	// firstPause and longestPause bound how long the same change of a pod's metadata waits
	// when another writer has undone it.
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// ownershipLabels and ownershipAnnotations are the keys by which this controller and the
// consumer's virtual kubelet recognize a pod, and what both can do with it.
var (
	ownershipLabels = []string{
		offloadingv1beta1.ManagedByLabel, offloadingv1beta1.OriginLabel,
		offloadingv1beta1.DestinationLabel, offloadingv1beta1.NodeNameLabel,
	}
	ownershipAnnotations = []string{remote.LocalPodUIDAnnotation, offloadingv1beta1.SupportsAnnotation}
)

// ownershipOf returns a pod with the ownership labels and annotations of the given one, and
// nothing else.
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

// attempt is the last change of a pod's metadata that was sent.
type attempt struct {
	pod   types.UID
	patch string
	at    time.Time
	pause time.Duration
}

// pauseBefore returns how long a change of a pod's metadata has to wait because the same one
// was sent before and undone by another writer; zero records that it is sent now.
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

// others returns the entries of have whose keys want has not.
func others(have, want map[string]string) map[string]string {
	rest := maps.Clone(have)
	maps.DeleteFunc(rest, func(key, _ string) bool { _, ok := want[key]; return ok })
	return rest
}
