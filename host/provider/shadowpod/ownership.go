package shadowpod

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	// firstPause and longestPause bound the pause before a change of a pod's metadata that
	// another writer has reverted, and between two creations of a pod that does not last. A pod
	// that lasts twice as long as the longest pause begins anew.
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

// attempt is a request that was sent: a change of a pod's metadata, or the creation of a pod.
type attempt struct {
	what  string
	at    time.Time
	pause time.Duration
}

// nextAttempt returns the attempt to record when the request is sent now, or how long to wait before
// it is sent: a request that another writer reverts again and again, or whose pod does not last, is
// sent ever more seldom.
func (r *Reconciler) nextAttempt(attempts *sync.Map, key types.NamespacedName, what string) (attempt, time.Duration) {
	next := attempt{what: what, at: r.Clock.Now(), pause: firstPause}
	stored, _ := attempts.Load(key)
	if last, ok := stored.(attempt); ok && last.what == what {
		passed := next.at.Sub(last.at)
		if passed < last.pause {
			return attempt{}, last.pause - passed
		}
		if passed < 2*longestPause {
			next.pause = min(2*last.pause, longestPause)
		}
	}
	return next, 0
}

// withoutKeys returns the entries of m whose keys are not in keys.
func withoutKeys(m, keys map[string]string) map[string]string {
	rest := maps.Clone(m)
	maps.DeleteFunc(rest, func(key, _ string) bool { _, ok := keys[key]; return ok })
	return rest
}
