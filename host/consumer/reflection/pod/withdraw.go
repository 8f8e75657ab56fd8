package pod

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	// shortestPeriod is the least that a provider gives a pod that does not itself do
	// without: its kubelet confirms the end.
	shortestPeriod = 1
	// longerWait is for how long after its deletion a pod that was given more time than
	// its own keeps its ShadowPod, for the provider to begin the end. Without ShadowPod
	// the provider's garbage collector might be first, which knows the pod's own only.
	longerWait = 10 * time.Second
)

// terminate decides about a local pod that is being deleted: rows 3 to 5. It vanishes
// only after both remote objects have (T17).
func (d *Definition) terminate(s scene) []engine.Action {
	if s.shadow == nil && s.pod == nil {
		return []engine.Action{engine.DeleteLocal{}}
	}
	period := override(s.local)
	actions := s.tell(period)
	switch {
	case s.shadow == nil || s.shadow.DeletionTimestamp != nil:
		return append(actions, d.mirror(s)...)
	case s.isLonger(period):
		if left := askedAt(s.local).Add(longerWait).Sub(s.in.Facts.Now); left > 0 {
			return append(actions, engine.Wait{For: min(left, longerWait), Why: "for the provider to give the pod more time than its own"})
		}
	}
	return append(actions, s.delete())
}

// withdraw deletes the ShadowPod unless that is under way.
func (s scene) withdraw(why string) []engine.Action {
	if s.shadow != nil && s.shadow.DeletionTimestamp == nil {
		return []engine.Action{s.delete()}
	}
	return keep(why)
}

// withdrawForced is withdraw for the ShadowPod of a local pod that is gone. A local pod goes
// before its remote pod only by force, so if it went under our eyes the remote pod is not
// given more time than it takes (T16). One that was gone before we looked keeps its own.
func (s scene) withdrawForced(why string) []engine.Action {
	var period *int64
	if s.shadow != nil && s.before.own != 0 && string(s.before.local) == s.shadow.Annotations[remote.LocalPodUIDAnnotation] {
		period = ptr.To[int64](0)
	}
	told := s.tell(period)
	withdrawn := s.withdraw(why)
	return append(told, withdrawn...)
}

// delete deletes the ShadowPod. A provider of ours is asked to keep it until its pod is
// gone, so that a shorter period can still be told; it lets it go even when its
// controller is not there, since the garbage collector does so too.
func (s scene) delete() engine.Action {
	return engine.DeleteRemote{Foreground: s.supportsPeriods()}
}

// tell says on the ShadowPod how much time its pod is given; nil is the pod's own, which
// needs no word. Nothing is said that is said already, that a pod which goes sooner
// would not notice, or that the provider would not understand.
func (s scene) tell(period *int64) []engine.Action {
	pod := s.remains()
	if period == nil || s.shadow == nil || !s.supportsPeriods() || finished(pod) {
		return nil
	}
	if pod.DeletionTimestamp != nil && max(*period, shortestPeriod) >= ptr.Deref(pod.DeletionGracePeriodSeconds, 0) {
		return nil
	}
	text := strconv.FormatInt(*period, 10)
	if s.shadow.Annotations[offloadingv1beta1.DeletionGracePeriodAnnotation] == text {
		return nil
	}
	return []engine.Action{engine.PatchRemote{
		Annotations: map[string]*string{offloadingv1beta1.DeletionGracePeriodAnnotation: &text},
	}}
}

// isLonger reports whether the remote pod is given more time than its own and its end
// has not begun.
func (s scene) isLonger(period *int64) bool {
	return period != nil && *period > ownPeriod(s.local) && s.supportsPeriods() &&
		s.pod != nil && s.pod.DeletionTimestamp == nil && !finished(s.pod)
}

// remains is the remote pod, be it this local pod's or an earlier one's.
func (s scene) remains() *corev1.Pod {
	if s.pod != nil {
		return s.pod
	}
	return s.predecessor
}

// supportsPeriods reports whether the provider's controller, by which the remote pod was
// made, does what DeletionGracePeriodAnnotation says.
func (s scene) supportsPeriods() bool {
	pod := s.remains()
	return pod != nil && slices.Contains(strings.Split(pod.Annotations[offloadingv1beta1.SupportsAnnotation], ","),
		offloadingv1beta1.SupportsDeletionGracePeriod)
}

// override is the period with which a pod is being deleted, if that is not its own.
func override(pod *corev1.Pod) *int64 {
	period := pod.DeletionGracePeriodSeconds
	if period == nil || *period == ownPeriod(pod) {
		return nil
	}
	return period
}

// ownPeriod is the period with which a pod is deleted when nobody asks for another; the
// API server takes a negative one for one second.
func ownPeriod(pod *corev1.Pod) int64 {
	own := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if own < 0 {
		return 1
	}
	return own
}

// askedAt is when a pod's deletion was asked for.
func askedAt(pod *corev1.Pod) time.Time {
	return pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
}
