package processnode

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	backoffStart = time.Second
	backoffMax   = time.Minute
	backoffReset = 10 * time.Minute
)

// Reasons of containers that do not run, and of pods that never will, as people know
// them from the kubelet.
const (
	reasonCreating       = "ContainerCreating"
	reasonInitializing   = "PodInitializing"
	reasonConfigError    = "CreateContainerConfigError"
	reasonUnknownImage   = "ErrImageNeverPull"
	reasonStartError     = "RunContainerError"
	reasonCrashLoop      = "CrashLoopBackOff"
	reasonCompleted      = "Completed"
	reasonError          = "Error"
	reasonStatusUnknown  = "ContainerStatusUnknown"
	reasonPodUnsupported = "UnsupportedByProcessNode"
	reasonNotInitialized = "ContainersNotInitialized"
	reasonNotReady       = "ContainersNotReady"
	reasonPodCompleted   = "PodCompleted"
)

const (
	// exitSignaled and the signal's number are the exit code of what a signal ended.
	exitSignaled = 128
	exitKilled   = exitSignaled + 9
)

// backoff returns how long to wait before a container that ended starts again: a run
// that lasted as long as backoffReset is forgiven.
func backoff(previous, ran time.Duration) time.Duration {
	if previous == 0 || ran >= backoffReset {
		return backoffStart
	}
	return min(2*previous, backoffMax)
}

// restartable reports whether a container that ended is to be started again.
func restartable(policy corev1.RestartPolicy, exit int) bool {
	return policy == corev1.RestartPolicyAlways || (policy == corev1.RestartPolicyOnFailure && exit != 0)
}

// containerState is what is known of one container.
type containerState struct {
	name, image string
	running     bool
	// startedUp and ready are the results of the startup and the readiness probe; true for a
	// running container without the probe.
	startedUp, ready bool
	started          metav1.Time
	restarts         int32
	// waiting is the reason why it does not run, ended how it ended for good, last how the
	// previous run ended.
	waiting *corev1.ContainerStateWaiting
	ended   *corev1.ContainerStateTerminated
	last    *corev1.ContainerStateTerminated
	id      string
}

// newState restores the state of a container from the pod's status: after a restart of the
// node its process is gone, and its restarts still count.
func newState(container *corev1.Container, statuses []corev1.ContainerStatus) *containerState {
	state := &containerState{name: container.Name, image: container.Image}
	for i := range statuses {
		before := &statuses[i]
		if before.Name != container.Name {
			continue
		}
		state.restarts, state.last = before.RestartCount, before.LastTerminationState.Terminated
		switch {
		case before.State.Running != nil:
			state.restarts++
			state.last = &corev1.ContainerStateTerminated{
				ExitCode: exitKilled, Reason: reasonStatusUnknown, Message: "the process node was restarted",
				StartedAt: before.State.Running.StartedAt, ContainerID: before.ContainerID,
			}
		case before.State.Terminated != nil:
			state.restarts++
			state.last = before.State.Terminated
		}
	}
	return state
}

func (c *containerState) status(idle string) corev1.ContainerStatus {
	startedUp := c.running && c.startedUp
	status := corev1.ContainerStatus{
		Name: c.name, Image: c.image, ImageID: c.image, Ready: startedUp && c.ready, RestartCount: c.restarts,
		ContainerID: c.id, Started: &startedUp,
	}
	switch {
	case c.running:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: c.started}
	case c.waiting != nil:
		status.State.Waiting = c.waiting
	case c.ended != nil:
		status.State.Terminated = c.ended
	default:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: idle}
	}
	status.LastTerminationState.Terminated = c.last
	return status
}

// podFacts is what a pod's status is computed from.
type podFacts struct {
	ip, hostIP  string
	started     metav1.Time
	initialized bool
	containers  []*containerState
	inits       []*containerState
	// failure is the reason why the pod can never run.
	failure error
	// over means that nothing will be started any more.
	over bool
	// previous is the last status. Conditions of other writers and the QoS class are kept, as
	// are the transition times of our conditions.
	previous   corev1.PodStatus
	generation int64
	now        metav1.Time
}

// forgeStatus computes a pod's status, as the kubelet would.
func forgeStatus(f podFacts) corev1.PodStatus {
	status := corev1.PodStatus{
		Phase: phase(f), StartTime: &f.started, QOSClass: f.previous.QOSClass, ObservedGeneration: f.generation,
		PodIP: f.ip, PodIPs: []corev1.PodIP{{IP: f.ip}}, HostIP: f.hostIP, HostIPs: []corev1.HostIP{{IP: f.hostIP}},
	}
	if f.failure != nil {
		status.Reason, status.Message = reasonPodUnsupported, f.failure.Error()
	}
	idle := reasonCreating
	if len(f.inits) > 0 && !f.initialized {
		idle = reasonInitializing
	}
	allReady := true
	for _, c := range f.containers {
		status.ContainerStatuses = append(status.ContainerStatuses, c.status(idle))
		allReady = allReady && c.running && c.startedUp && c.ready
	}
	for _, c := range f.inits {
		s := c.status(reasonInitializing)
		// An init container is ready when it is done.
		s.Ready = c.ended != nil && c.ended.ExitCode == 0
		status.InitContainerStatuses = append(status.InitContainerStatuses, s)
	}
	unready := reasonNotReady
	if status.Phase == corev1.PodSucceeded {
		unready = reasonPodCompleted
	}
	status.Conditions = mergeConditions(f.previous.Conditions, f.now, []corev1.PodCondition{
		condition(corev1.PodScheduled, true, ""),
		condition(corev1.PodInitialized, f.initialized, reasonNotInitialized),
		condition(corev1.ContainersReady, allReady, unready),
		condition(corev1.PodReady, allReady, unready),
	})
	return status
}

func condition(kind corev1.PodConditionType, value bool, otherwise string) corev1.PodCondition {
	if value {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: otherwise}
}

// mergeConditions puts ours in the place of the previous ones; a status that stays keeps
// its transition time.
func mergeConditions(previous []corev1.PodCondition, now metav1.Time, ours []corev1.PodCondition) []corev1.PodCondition {
	kinds := map[corev1.PodConditionType]bool{}
	for i := range ours {
		kinds[ours[i].Type] = true
		ours[i].LastTransitionTime = now
		for _, before := range previous {
			if before.Type == ours[i].Type && before.Status == ours[i].Status && !before.LastTransitionTime.IsZero() {
				ours[i].LastTransitionTime = before.LastTransitionTime
			}
		}
	}
	for _, before := range previous {
		if !kinds[before.Type] {
			ours = append(ours, before)
		}
	}
	return ours
}

// phase is Failed or Succeeded only when nothing will be started any more: a terminal
// phase is for good, and a controller replaces the pod.
func phase(f podFacts) corev1.PodPhase {
	switch {
	case slices.ContainsFunc(f.containers, func(c *containerState) bool { return c.running }):
		return corev1.PodRunning
	case f.failure != nil:
		return corev1.PodFailed
	case f.over && !f.initialized && anyFailed(f.inits):
		return corev1.PodFailed
	case f.over && allEnded(f.containers):
		if anyFailed(f.containers) {
			return corev1.PodFailed
		}
		return corev1.PodSucceeded
	case f.initialized && slices.ContainsFunc(f.containers, (*containerState).began):
		return corev1.PodRunning
	default:
		return corev1.PodPending
	}
}

// began reports whether the container has run before.
func (c *containerState) began() bool { return c.ended != nil || c.last != nil || c.restarts > 0 }

func allEnded(states []*containerState) bool {
	return !slices.ContainsFunc(states, func(c *containerState) bool { return c.ended == nil })
}

func anyFailed(states []*containerState) bool {
	return slices.ContainsFunc(states, func(c *containerState) bool { return c.ended != nil && c.ended.ExitCode != 0 })
}
