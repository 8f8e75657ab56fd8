package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

// The end of an offloaded pod:
//
//  1. The virtual kubelet deletes the ShadowPod. The provider's garbage collector deletes the
//     remote pod, with the grace period in the pod's spec.
//  2. When another grace period is requested, the virtual kubelet deletes the remote pod
//     itself, with that period. A shorter period that is requested later is sent again.
//  3. The local pod gets a terminal phase, unless it has one, and is deleted when neither remote object exists any
//     longer.
//
// A remote pod can leave the watch by losing its labels: one whose end was not seen is read before
// the local pod is deleted. Other pods cost no such request. A pod that is deleted before its remote
// pod was observed gets its requested period when the remote pod appears. A local pod that is deleted
// by force at that moment leaves a remote pod that ends with its own period.

const (
	// minGracePeriod is the shortest grace period, in seconds, of a remote pod that has one:
	// with 0 the API server removes the pod before its kubelet has stopped the containers.
	minGracePeriod = 1
	// creationWindow is how long after the deletion of a ShadowPod its remote pod may appear in
	// the cache, because the provider was creating the pod at that time.
	creationWindow = 3 * time.Second
	// localDeletionRetry is when the deletion of the local pod is sent again. The API server
	// answers one deletion with two events, of which the first must not cause another request.
	localDeletionRetry = 30 * time.Second
	// lostPodRetry is when a remote pod without labels, whose end causes no event, is read again.
	lostPodRetry = 5 * time.Second
	// reasonRemotePodUnlabeled is the reason of an event on the local pod meanwhile.
	reasonRemotePodUnlabeled = "RemotePodUnlabeled"
)

// reconcileTerminating decides about a local pod that is being deleted (rows 3 to 5).
func (d *Definition) reconcileTerminating(o observation) []engine.Action {
	if o.shadow == nil && o.pod == nil {
		return o.deleteLocal()
	}
	actions := o.deleteRemote(o.pod, requestedGracePeriod(o.local))
	if o.hasLiveShadowPod() && (o.pod == nil || o.pod.DeletionTimestamp != nil) {
		// The provider may be creating the pod, or the next one after an eviction.
		o.memory.shadowDeletedAt = o.in.Facts.Now
		actions = append(actions, engine.Remember{Value: o.memory})
	}
	return append(append(actions, d.mirrorStatus(o)...), o.reportHeld()...)
}

// deleteLocal deletes the local pod, of which nothing is left in the provider.
func (o *observation) deleteLocal() []engine.Action {
	now := o.in.Facts.Now
	if left := remaining(o.memory.shadowDeletedAt, creationWindow, now); left > 0 {
		return []engine.Action{engine.Requeue{After: left, Reason: waitRemotePodCreation}}
	}
	if left := remaining(o.memory.localDeletedAt, localDeletionRetry, now); left > 0 {
		return []engine.Action{engine.Requeue{After: left, Reason: waitLocalPodDeletion}}
	}
	o.memory.localDeletedAt = now
	gone := append(endLocal(o.local, now), engine.Remember{Value: o.memory})
	if !o.in.IsDependentLost {
		return gone
	}
	// Without its labels the remote pod is not watched, and may run until its grace period ends:
	// the controller of the local pod, a StatefulSet for example, would start another one beside it.
	return []engine.Action{engine.AskDependent{
		IsOwn: func(object client.Object) bool { return runsFor(object, o.local) },
		Gone:  gone,
		Exists: []engine.Action{
			engine.RecordEvent{Type: engine.EventWarning, Reason: reasonRemotePodUnlabeled, Message: "The pod is kept until its remote pod in cluster " +
				o.in.Facts.ProviderClusterID + " has ended: another writer there removed the labels of the virtual kubelet from the remote pod."},
			engine.Requeue{After: lostPodRetry, Reason: waitRemotePodEnd},
		},
	}}
}

// endLocal deletes a local pod that runs nowhere. As on other nodes, its phase is terminal before.
func endLocal(pod *corev1.Pod, now time.Time) []engine.Action {
	if isFinished(pod) {
		return []engine.Action{engine.DeleteLocal{}}
	}
	return append(patchStatus(pod, local.EndedPodStatus(pod, now)), engine.DeleteLocal{})
}

// runsFor reports whether a pod of the provider, which may have lost its labels, is the remote pod of this
// local pod and has not ended. Another user may have created a pod of the name.
func runsFor(object client.Object, local *corev1.Pod) bool {
	owner := metav1.GetControllerOf(object)
	_, isRecorded := object.GetAnnotations()[remote.LocalPodUIDAnnotation]
	isRemotePod := isRecorded || owner != nil && owner.Kind == offloadingv1beta1.ShadowPodGVK.Kind
	return isRemotePod && belongsTo(object, local) && !hasEnded(object)
}

// deleteRemote deletes the ShadowPod. It also deletes the remote pod if the given period makes
// it end at another time; nil is the period in the pod's spec.
func (o *observation) deleteRemote(pod *corev1.Pod, period *int64) []engine.Action {
	var shadowPod, remotePod []engine.Action
	if o.hasLiveShadowPod() {
		shadowPod = []engine.Action{engine.DeleteRemote{}}
	}
	if pod == nil || period == nil {
		return shadowPod
	}
	own := ownGracePeriod(&pod.Spec)
	seconds := max(*period, min(own, minGracePeriod))
	if !changesGracePeriod(pod, seconds) {
		return shadowPod
	}
	remotePod = []engine.Action{engine.DeleteDependent{GracePeriodSeconds: seconds}}
	if seconds > own {
		// First: once the garbage collector has deleted the pod, its period only gets shorter.
		return append(remotePod, shadowPod...)
	}
	// Last: the provider creates another pod for a ShadowPod that exists.
	return append(shadowPod, remotePod...)
}

// changesGracePeriod reports whether a pod that is deleted with this grace period ends at
// another time than it does anyway. The API server shortens the period of a pod that is
// being deleted, and does not extend it.
func changesGracePeriod(pod *corev1.Pod, seconds int64) bool {
	switch {
	case isFinished(pod):
		return false
	case pod.DeletionTimestamp == nil:
		return seconds != ownGracePeriod(&pod.Spec)
	default:
		return seconds < ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
	}
}

// requestedGracePeriod returns the grace period with which the local pod is deleted, nil when
// it is the one in the pod's spec.
func requestedGracePeriod(local *corev1.Pod) *int64 {
	period := local.DeletionGracePeriodSeconds
	if period == nil || *period == ownGracePeriod(&local.Spec) {
		return nil
	}
	return period
}

// deleteOrphans deletes what is left in the provider of a local pod that is gone. Only a
// deletion by force removes a local pod before its remote pod. If this process observed the
// local pod before, the remote pod is deleted by force too, otherwise with its own period.
func (o *observation) deleteOrphans() []engine.Action {
	pod := o.anyRemotePod()
	if pod == nil || o.last.localUID == "" || !o.last.localDeletedAt.IsZero() ||
		pod.Annotations[remote.LocalPodUIDAnnotation] != string(o.last.localUID) {
		return o.deleteRemote(pod, nil)
	}
	return o.deleteRemote(pod, ptr.To[int64](0))
}

// ownGracePeriod returns the grace period of a deletion that requests none. The API server
// takes a negative one for one second.
func ownGracePeriod(spec *corev1.PodSpec) int64 {
	own := ptr.Deref(spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if own < 0 {
		return 1
	}
	return own
}

// remaining returns how much of a period that began at since is left; 0 when since is zero.
func remaining(since time.Time, period time.Duration, now time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return min(max(since.Add(period).Sub(now), 0), period)
}
