package pod

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	// predecessorRetry is how soon the remains of an earlier pod of the same name are
	// looked at again, should their end make no event.
	predecessorRetry = 30 * time.Second
	// labelDelay is how long the label of an offloaded pod waits for a status to go with.
	labelDelay = 30 * time.Second
	// convergeRetry is how soon labels and annotations are tried again after the policies
	// could not say what they should be.
	convergeRetry = time.Minute
)

// scene is one pod as observed. pod is the remote pod of this very local pod; that of an
// earlier pod of the same name is predecessor.
type scene struct {
	in               engine.Input
	local            *corev1.Pod
	shadow           *offloadingv1beta1.ShadowPod
	pod, predecessor *corev1.Pod
	// memory is what is remembered of this very local pod, or of the one that is gone;
	// before is what was remembered last, which may be of an earlier pod of this name.
	memory, before memory
}

func newScene(in engine.Input) scene {
	s := scene{in: in}
	s.local, _ = in.Local.(*corev1.Pod)
	s.shadow, _ = in.Remote.(*offloadingv1beta1.ShadowPod)
	s.pod, _ = in.Dependent.(*corev1.Pod)
	s.before, _ = in.Memory.(memory)
	s.memory = s.before.of(s.local)
	if s.local != nil && s.pod != nil && !belongs(s.pod, s.local) {
		s.pod, s.predecessor = nil, s.pod
	}
	return s
}

// Decide implements engine.Definition. The numbers are the rows of wire 3.6;
// row 9 (created, not yet seen) is the engine's.
func (d *Definition) Decide(in engine.Input) ([]engine.Action, error) {
	s := newScene(in)
	switch {
	case s.isStrangers(): // row 1
		if s.local == nil {
			return keep("the remote objects are a stranger's"), nil
		}
		return []engine.Action{engine.NameConflict(in.Facts, "pod or ShadowPod", in.Key.Name)}, nil
	case s.local == nil: // row 2
		return s.withdrawForced("the local pod is gone"), nil
	case s.shadow != nil && !belongs(s.shadow, s.local): // T25
		return s.withdrawForced("the ShadowPod is that of an earlier pod of this name"), nil
	case s.local.DeletionTimestamp != nil:
		return d.terminate(s), nil
	case s.local.Status.Phase == corev1.PodFailed && s.local.Status.Reason == offloadingv1beta1.OffloadingAbortedReason: // row 6
		return s.withdraw("the pod was aborted and is not offloaded again"), nil
	case finished(s.local) && (s.pod == nil || s.pod.Status.Phase == s.local.Status.Phase): // row 7
		return keep("the pod has finished"), nil
	case s.shadow == nil && s.predecessor != nil:
		return append(s.withdrawForced("the remote pod of an earlier pod of this name is still there"),
			engine.Requeue{After: predecessorRetry, Reason: "for the provider to collect it"}), nil
	case s.shadow == nil: // rows 8 and 10
		return []engine.Action{engine.Query{Run: func(ctx context.Context) ([]engine.Action, error) { return d.offload(ctx, s) }}}, nil
	}
	actions := s.label(d.mirror(s)) // rows 8 and 13
	// Rows 11 and 12 come last, so that a policy which fails cannot hold back what the
	// remote pod reports.
	return append(actions, d.converge(s, actions)...), nil
}

// isStrangers is row 1. The engine watches only what carries our labels, and meets
// strangers when it creates; this is for labels that changed under our eyes.
func (s scene) isStrangers() bool {
	return s.shadow != nil && !engine.Owned(s.shadow, s.in.Facts) ||
		s.in.Dependent != nil && !engine.Owned(s.in.Dependent, s.in.Facts)
}

// label marks the local pod as offloaded, once the ShadowPod exists. The mark travels
// with the first status; only a pod that has none for a while gets it in a request of
// its own.
func (s scene) label(actions []engine.Action) []engine.Action {
	value := "true"
	if s.local.Labels[offloadingv1beta1.LocalPodLabel] == value {
		return actions
	}
	labels := map[string]*string{offloadingv1beta1.LocalPodLabel: &value}
	for i, action := range actions {
		if patch, ok := action.(engine.PatchLocalStatus); ok {
			patch.Labels = labels
			actions[i] = patch
			return actions
		}
	}
	if left := labelDelay - s.in.Facts.Now.Sub(s.shadow.CreationTimestamp.Time); left > 0 {
		return append(actions, engine.Requeue{After: min(left, labelDelay), Reason: "for a status that takes the label along"})
	}
	return append(actions, engine.PatchLocal{Labels: labels})
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// belongs reports whether a remote object was made for this local pod and not for an
// earlier one of its name (T25). Objects that do not say, as the reference system's, do.
func belongs(object client.Object, local *corev1.Pod) bool {
	uid, recorded := object.GetAnnotations()[remote.LocalPodUIDAnnotation]
	return !recorded || uid == string(local.UID)
}

func keep(why string) []engine.Action { return []engine.Action{engine.Keep{Reason: why}} }
