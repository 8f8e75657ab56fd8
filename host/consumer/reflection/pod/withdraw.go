package pod

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	// shortestPeriod is the least that a provider gives a pod that does not itself do
	// without: its kubelet confirms the end.
	shortestPeriod = 1
	// beginWait is how long a provider has to begin the end of a pod after it was told.
	// Then the ShadowPod is deleted: the garbage collector ends the pod of a controller
	// that is not there.
	beginWait = 30 * time.Second
	// appearWait is how long a pod may take to appear here that the provider made before
	// it was told that there is to be none.
	appearWait = 3 * time.Second
	whyAppear  = "for a pod that the provider may have made a moment ago"
	// letGoRetry is how soon a local pod is deleted again that does not go.
	letGoRetry = 30 * time.Second
)

// ending is what is remembered of the end of a remote pod.
type ending struct {
	// shadow is the ShadowPod on which the provider was told of it, since when.
	shadow types.UID
	since  time.Time
	// seen: the pod was there, then or later. early: it was on its way out before, so
	// that the provider may have been about to make another.
	seen, early bool
}

// terminate decides about a local pod that is being deleted: rows 3 to 5. It vanishes
// only after both remote objects have (T17).
func (d *Definition) terminate(s scene) []engine.Action {
	if s.shadow == nil && s.pod == nil {
		return s.letGo()
	}
	actions := s.end(override(s.local))
	if s.pod == nil && s.shadow.DeletionTimestamp == nil {
		return actions
	}
	return append(actions, d.mirror(s)...)
}

// letGo deletes the local pod, once. For the API server that is two writes, and the first,
// of the period 0, is an event that brings us here again.
func (s *scene) letGo() []engine.Action {
	if e := s.memory.ending; e.shadow != "" && !e.seen {
		if left := e.since.Add(appearWait).Sub(s.in.Facts.Now); left > 0 {
			return []engine.Action{engine.Requeue{After: min(left, appearWait), Reason: whyAppear}}
		}
	}
	if left := s.memory.letGo.Add(letGoRetry).Sub(s.in.Facts.Now); left > 0 && !s.memory.letGo.IsZero() {
		return []engine.Action{engine.Requeue{After: min(left, letGoRetry), Reason: "for the local pod, which is deleted, to go"}}
	}
	s.memory.letGo = s.in.Facts.Now
	return []engine.Action{engine.DeleteLocal{}, engine.Remember{Value: s.memory}}
}

// withdraw ends the remote pod and its ShadowPod, with the pod's own period.
func (s *scene) withdraw(why string) []engine.Action {
	return append(s.end(nil), keep(why)...)
}

// withdrawForced is withdraw for what is left of a local pod that is gone. A local pod goes
// before its remote pod only by force, so if it went under our eyes the remote pod is not
// given more time than it takes (T16). One that was gone before we looked keeps its own.
func (s *scene) withdrawForced(why string) []engine.Action {
	return append(s.end(s.forced()), keep(why)...)
}

// forced is the period of a remote pod whose local pod is gone, nil for its own.
func (s *scene) forced() *int64 {
	pod, of := s.remains(), ""
	switch {
	case s.shadow != nil:
		of = s.shadow.Annotations[remote.LocalPodUIDAnnotation]
	case pod != nil:
		of = pod.Annotations[remote.LocalPodUIDAnnotation]
	}
	ours := !s.before.letGo.IsZero() // it was us who deleted the local pod
	if ours || s.before.own == 0 || string(s.before.local) != of || pod != nil && finished(pod) {
		return nil
	}
	return ptr.To[int64](0)
}

// end ends the remote pod, given some seconds of grace, nil for its own.
//
// With its own period that is the ShadowPod's deletion, after which the provider ends the
// pod. Another period is told to a provider of ours on the ShadowPod, which is deleted
// after its pod. Less than was told, or than was said by no word, is told the same way,
// and if the ShadowPod is gone, on another that is made for it.
func (s *scene) end(period *int64) []engine.Action {
	if s.shadow == nil {
		return s.remind(period)
	}
	pod := s.its()
	switch {
	case s.shadow.DeletionTimestamp != nil:
		return s.tell(pod, period)
	case pod != nil && !s.supportsPeriods(), pod == nil && s.hasNone():
		return []engine.Action{engine.DeleteRemote{}}
	case period == nil && !s.isTold():
		return s.delete(pod)
	}
	memory := s.recall()
	before := memory.ending
	if before.shadow != s.shadow.UID {
		before = ending{}
		memory.ending = ending{shadow: s.shadow.UID, since: s.in.Facts.Now, early: evicted(pod) && !s.isTold()}
	}
	memory.ending.seen = before.seen || pod != nil
	if pod == nil && before.seen {
		return []engine.Action{engine.DeleteRemote{Foreground: before.early}}
	}
	actions := s.tell(pod, period)
	if memory.ending != before {
		actions = append(actions, engine.Remember{Value: *memory})
	}
	return append(actions, s.await(pod, memory.ending.since)...)
}

// delete deletes the ShadowPod of a pod that ends with its own period. If the provider may
// have made a pod, or another, which is not seen here yet, there is more to be done.
func (s *scene) delete(pod *corev1.Pod) []engine.Action {
	switch {
	case evicted(pod):
		// The ShadowPod stays until its controller has looked for another pod.
		return []engine.Action{engine.DeleteRemote{Foreground: true}}
	case pod != nil:
		return []engine.Action{engine.DeleteRemote{}}
	}
	memory := s.recall()
	memory.ending = ending{shadow: s.shadow.UID, since: s.in.Facts.Now}
	return []engine.Action{engine.DeleteRemote{}, engine.Remember{Value: *memory}}
}

// evicted reports that a pod goes while its ShadowPod stays, for which another is made.
func evicted(pod *corev1.Pod) bool { return pod != nil && pod.DeletionTimestamp != nil }

// remind gives less time to a remote pod that goes and whose ShadowPod is gone.
func (s *scene) remind(period *int64) []engine.Action {
	pod := s.remains()
	if pod == nil || period == nil || !s.supportsPeriods() || !notices(pod, *period, ownPeriod(&pod.Spec)) {
		return nil
	}
	return []engine.Action{engine.Create{Object: remote.EndingShadowPod(pod, *period)}}
}

// notices reports whether a pod ends sooner with some seconds of grace than with those that
// it was promised.
func notices(pod *corev1.Pod, period, promised int64) bool {
	switch {
	case finished(pod):
		return false
	case pod.DeletionTimestamp == nil:
		return period < promised
	}
	return max(period, shortestPeriod) < ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
}

// told is the period that the ShadowPod says, if it says one: its pod ends.
func (s *scene) told() (seconds int64, is bool) {
	said, err := strconv.ParseUint(s.shadow.Annotations[offloadingv1beta1.DeletionGracePeriodAnnotation], 10, 31)
	return int64(said), err == nil
}

func (s *scene) isTold() bool {
	_, is := s.told()
	return is
}

// await waits for the provider to do what it was told, and deletes the ShadowPod when
// that does not come.
func (s *scene) await(pod *corev1.Pod, since time.Time) []engine.Action {
	patience, why := beginWait, "for the provider to begin the end of the pod"
	switch {
	case pod == nil:
		patience, why = appearWait, whyAppear
	case pod.DeletionTimestamp != nil:
		return nil
	}
	if left := since.Add(patience).Sub(s.in.Facts.Now); left > 0 {
		return []engine.Action{engine.Requeue{After: min(left, patience), Reason: why}}
	}
	return []engine.Action{engine.DeleteRemote{Foreground: pod != nil}}
}

// tell says on the ShadowPod that its pod ends, and how many seconds it is given. What is
// said is changed for less only, and only if the pod would notice.
func (s *scene) tell(pod *corev1.Pod, period *int64) []engine.Action {
	if period == nil {
		return nil
	}
	said, is := s.told()
	if is || s.shadow.DeletionTimestamp != nil {
		if pod == nil || !s.supportsPeriods() || is && *period >= said {
			return nil
		}
		if !is {
			said = ownPeriod(&pod.Spec)
		}
		if !notices(pod, *period, said) {
			return nil
		}
	}
	text := strconv.FormatInt(*period, 10)
	return []engine.Action{engine.PatchRemote{
		Annotations: map[string]*string{offloadingv1beta1.DeletionGracePeriodAnnotation: &text},
	}}
}

// hasNone reports whether the provider has said that the ShadowPod has no pod: it cannot
// make one, or will not make another.
func (s *scene) hasNone() bool {
	return s.shadow.Status.Reason != "" || s.shadow.Status.Phase == corev1.PodSucceeded || s.shadow.Status.Phase == corev1.PodFailed
}

// recall is what is remembered of the local pod for which the ShadowPod was made.
func (s *scene) recall() *memory {
	if s.local != nil && !belongs(s.shadow, s.local) {
		return &s.before
	}
	return &s.memory
}

// its is the pod of the ShadowPod, be that this local pod's or an earlier one's (T25).
func (s *scene) its() *corev1.Pod {
	pod := s.remains()
	if pod == nil {
		return nil
	}
	of, recorded := pod.Annotations[remote.LocalPodUIDAnnotation]
	if its, both := s.shadow.Annotations[remote.LocalPodUIDAnnotation]; recorded && both && of != its {
		return nil
	}
	return pod
}

// remains is the remote pod of this name.
func (s *scene) remains() *corev1.Pod {
	if s.pod != nil {
		return s.pod
	}
	return s.predecessor
}

// supportsPeriods reports whether the provider's controller, by which the remote pod was
// made, does what DeletionGracePeriodAnnotation says.
func (s *scene) supportsPeriods() bool {
	pod := s.remains()
	return pod != nil && slices.Contains(strings.Split(pod.Annotations[offloadingv1beta1.SupportsAnnotation], ","),
		offloadingv1beta1.SupportsDeletionGracePeriod)
}

// override is the period with which a pod is being deleted, if that is not its own.
func override(pod *corev1.Pod) *int64 {
	period := pod.DeletionGracePeriodSeconds
	if period == nil || *period == ownPeriod(&pod.Spec) {
		return nil
	}
	return period
}

// ownPeriod is the period with which a pod is deleted when nobody asks for another; the
// API server takes a negative one for one second.
func ownPeriod(pod *corev1.PodSpec) int64 {
	own := ptr.Deref(pod.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if own < 0 {
		return 1
	}
	return own
}
