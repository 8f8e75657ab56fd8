package pod

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/kit/contest"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

// ReasonEndedByProvider is the reason of an event and of the status of a local pod that waits, because the
// provider has ended others of its controller soon after they began.
const ReasonEndedByProvider = "EndedByProvider"

const (
	// lasting is how long a pod runs whose end is not counted, as long as in the provider's own backoff.
	lasting = 2 * contest.Max
	// maxEndings is how many controllers are remembered. One that is forgotten begins anew.
	maxEndings = 4096
	// reasonDeadlineExceeded is the reason of a pod that has reached the deadline in its own spec.
	reasonDeadlineExceeded = "DeadlineExceeded"
)

// ending is when the provider ended pods of one controller soon after they began. The zero value is never.
type ending struct {
	at      time.Time
	contest contest.Contest
}

// of returns the ending after the end of a pod. Pods that began before the last end are of the same round:
// a node of the provider that fails ends many at once.
func (e ending) of(begun, now time.Time) ending {
	if now.Sub(begun) > lasting || begun.Before(e.at) {
		return e
	}
	return ending{at: now, contest: e.contest.Wrote(true, now)}
}

// pause returns how long the next pods wait: not after the first round, then longer and longer, and whether
// they report it.
func (e ending) pause(now time.Time) (time.Duration, bool) { return e.contest.Pause(now) }

// endings are those of the controllers that have pods on the virtual node. ReplicaSets and StatefulSets
// replace a pod that has ended at once, so that a provider could have them create pods without end. It is safe
// for concurrent use.
type endings struct {
	mu     sync.Mutex
	owners *lru.Cache
}

func newEndings() *endings { return &endings{owners: lru.New(maxEndings)} }

func (e *endings) of(owner types.UID) ending {
	value, _ := e.owners.Get(owner)
	last, _ := value.(ending)
	return last
}

// note counts the end of a pod.
func (e *endings) note(owner types.UID, begun, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.of(owner)
	if next := last.of(begun, now); next != last {
		e.owners.Add(owner, next)
	}
}

// ownerOf returns the UID of what replaces the pod when it ends, which is the pod itself if only its ShadowPod
// is replaced, with its kind and name.
func ownerOf(pod *corev1.Pod) (types.UID, string) {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.UID, "pods of " + owner.Kind + " " + owner.Name
	}
	return pod.UID, "the pod"
}

// begun returns when the pod began in the provider. After a restart that is at most as long ago as the
// creation of the local pod.
func (o *observation) begun() time.Time {
	if o.memory.begunAt.IsZero() {
		return o.local.CreationTimestamp.Time
	}
	return o.memory.begunAt
}

// noteEnd counts that the provider has ended the pod.
func (d *Definition) noteEnd(o observation) engine.Action {
	return engine.Query{Run: func(context.Context) ([]engine.Action, error) {
		owner, _ := ownerOf(o.local)
		d.endings.note(owner, o.begun(), o.in.Facts.Now)
		return nil, nil
	}}
}

// noteReportedEnd counts the end of a pod whose status ends the local pod, if it has not ended by itself.
func (d *Definition) noteReportedEnd(o observation, phase corev1.PodPhase, reason string) []engine.Action {
	if !podend.IsTerminal(phase) || isFinished(o.local) || o.local.DeletionTimestamp != nil || !isEndedByProvider(&o.local.Spec, phase, reason) {
		return nil
	}
	return []engine.Action{d.noteEnd(o)}
}

// isEndedByProvider reports whether the provider has ended a pod. A pod with a container that is always
// restarted does not end by itself. Others may: their controllers, Jobs for example, wait longer and longer
// between pods that fail, and only the reasons of a kubelet say that the pod had no part in its end.
func isEndedByProvider(spec *corev1.PodSpec, phase corev1.PodPhase, reason string) bool {
	for i := range spec.Containers {
		policy := spec.RestartPolicy
		if own := spec.Containers[i].RestartPolicy; own != nil {
			policy = corev1.RestartPolicy(*own)
		}
		if policy == "" || policy == corev1.RestartPolicyAlways {
			return true
		}
	}
	return phase == corev1.PodFailed && reason != "" && reason != reasonDeadlineExceeded
}

// waitAfterEnds returns what is done instead of beginning a pod after the provider has ended others of its
// controller, or this one; nil if it begins.
func (d *Definition) waitAfterEnds(o observation) []engine.Action {
	owner, ended := ownerOf(o.local)
	if !o.memory.begunAt.IsZero() {
		// It has begun, and its ShadowPod is gone.
		d.endings.note(owner, o.memory.begunAt, o.in.Facts.Now)
	}
	pause, isReported := d.endings.of(owner).pause(o.in.Facts.Now)
	if pause <= 0 {
		return nil
	}
	wait := []engine.Action{engine.Requeue{After: pause, Reason: waitBackOff}}
	if !isReported {
		return wait
	}
	message := "Cluster " + o.in.Facts.ProviderClusterID + " ends " + ended + " again and again, soon after the start. The pod waits until " +
		o.in.Facts.Now.Add(pause).UTC().Format("15:04:05") + " UTC before it begins there. " +
		"Ask the administrator of the cluster why, or keep the pods away from node " + o.in.Facts.NodeName + "."
	event := engine.RecordEvent{Type: engine.EventWarning, Reason: ReasonEndedByProvider, Message: message}
	return append(append(o.patchWaitingStatus(ReasonEndedByProvider, message), event), wait...)
}
