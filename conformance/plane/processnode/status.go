package processnode

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	backoffStart  = time.Second
	backoffMax    = time.Minute
	backoffForget = 10 * time.Minute
)

// backoff returns how long to wait before a container that ended starts again: a run
// that lasted long is forgiven.
func backoff(previous, ran time.Duration) time.Duration {
	if previous == 0 || ran >= backoffForget {
		return backoffStart
	}
	return min(2*previous, backoffMax)
}

// containerState is what is known of one container.
type containerState struct {
	name, image string
	running     bool
	ready       bool
	started     metav1.Time
	restarts    int32
	// waiting says why it does not run, ended how it ended last.
	waiting *corev1.ContainerStateWaiting
	ended   *corev1.ContainerStateTerminated
	last    *corev1.ContainerStateTerminated
	id      string
}

func (c *containerState) status() corev1.ContainerStatus {
	status := corev1.ContainerStatus{
		Name: c.name, Image: c.image, ImageID: c.image, Ready: c.ready && c.running, RestartCount: c.restarts,
		ContainerID: c.id, Started: &c.running,
	}
	switch {
	case c.running:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: c.started}
	case c.ended != nil:
		status.State.Terminated = c.ended
	case c.waiting != nil:
		status.State.Waiting = c.waiting
	default:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	if c.last != nil {
		status.LastTerminationState.Terminated = c.last
	}
	return status
}

// podFacts is what a pod's status is computed from.
type podFacts struct {
	ip, hostIP  string
	started     metav1.Time
	initialized bool
	containers  []*containerState
	inits       []*containerState
	// qos is the API server's to say: it refuses another value.
	qos corev1.PodQOSClass
	// previous conditions keep their transition times.
	previous []corev1.PodCondition
	now      metav1.Time
}

// forgeStatus computes a pod's status, as the kubelet would.
func forgeStatus(f podFacts) corev1.PodStatus {
	status := corev1.PodStatus{
		Phase: phase(f), PodIP: f.ip, PodIPs: []corev1.PodIP{{IP: f.ip}}, HostIP: f.hostIP,
		HostIPs: []corev1.HostIP{{IP: f.hostIP}}, StartTime: &f.started, QOSClass: f.qos,
	}
	allReady := true
	for _, c := range f.containers {
		status.ContainerStatuses = append(status.ContainerStatuses, c.status())
		allReady = allReady && c.ready && c.running
	}
	for _, c := range f.inits {
		status.InitContainerStatuses = append(status.InitContainerStatuses, c.status())
	}
	set := func(kind corev1.PodConditionType, value bool, reason string) {
		condition := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: f.now}
		if value {
			condition.Status, condition.Reason = corev1.ConditionTrue, ""
		}
		for _, before := range f.previous {
			if before.Type == kind && before.Status == condition.Status {
				condition.LastTransitionTime = before.LastTransitionTime
			}
		}
		status.Conditions = append(status.Conditions, condition)
	}
	set(corev1.PodScheduled, true, "")
	set(corev1.PodInitialized, f.initialized, "ContainersNotInitialized")
	set(corev1.ContainersReady, allReady, "ContainersNotReady")
	set(corev1.PodReady, allReady, "ContainersNotReady")
	return status
}

func phase(f podFacts) corev1.PodPhase {
	ended, failed := 0, false
	for _, c := range f.containers {
		if c.running {
			return corev1.PodRunning
		}
		if c.ended != nil {
			ended++
			failed = failed || c.ended.ExitCode != 0
		}
	}
	switch {
	case ended < len(f.containers) && !f.initialized:
		return corev1.PodPending
	case ended < len(f.containers):
		for _, c := range f.containers {
			if c.restarts > 0 || c.ended != nil {
				return corev1.PodRunning
			}
		}
		return corev1.PodPending
	case failed:
		return corev1.PodFailed
	default:
		return corev1.PodSucceeded
	}
}

// restartable reports whether a container that ended is to be started again.
func restartable(policy corev1.RestartPolicy, exit int) bool {
	return policy == corev1.RestartPolicyAlways || (policy == corev1.RestartPolicyOnFailure && exit != 0)
}
