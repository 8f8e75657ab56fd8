package local

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/kit/podend"
)

// What a kubelet reports of a container about whose end it knows nothing, or that it never started.
const (
	unknownEndReason   = "ContainerStatusUnknown"
	unknownEndMessage  = "The container could not be located when the pod was terminated"
	unknownEndExitCode = 137
)

// EndedPodStatus builds the last status of a local pod that is deleted, and of which nothing runs any more. A
// kubelet writes a terminal phase, too, before it removes a pod: a Job with a podFailurePolicy keeps its finalizer
// on a pod without one, and reads exit codes and the condition DisruptionTarget. The pod has failed
// unless all its containers ended well. A status with a terminal phase stays as it is.
func EndedPodStatus(pod *corev1.Pod, now time.Time) *corev1.PodStatus {
	status := pod.Status.DeepCopy()
	if podend.IsTerminal(status.Phase) {
		return status
	}
	status.InitContainerStatuses = endContainers(status.InitContainerStatuses, pod.Spec.InitContainers, now)
	status.ContainerStatuses = endContainers(status.ContainerStatuses, pod.Spec.Containers, now)
	reason := "PodCompleted"
	status.Phase = corev1.PodSucceeded
	if slices.ContainsFunc(status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Terminated.ExitCode != 0 }) {
		status.Phase, reason = corev1.PodFailed, "PodFailed"
	}
	for _, conditionType := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, corev1.PodReadyToStartContainers} {
		if condition := podCondition(status, conditionType); condition != nil && condition.Status == corev1.ConditionTrue {
			condition.Status, condition.Reason, condition.LastTransitionTime = corev1.ConditionFalse, reason, transition(now)
		}
	}
	return status
}

// endContainers returns a terminated status of each container.
func endContainers(statuses []corev1.ContainerStatus, containers []corev1.Container, now time.Time) []corev1.ContainerStatus {
	var ended []corev1.ContainerStatus
	for i := range containers {
		status := corev1.ContainerStatus{Name: containers[i].Name, Image: containers[i].Image}
		if at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == status.Name }); at >= 0 {
			status = statuses[at]
		}
		status.Ready = false
		if status.State.Terminated == nil {
			terminated := &corev1.ContainerStateTerminated{
				Reason: unknownEndReason, Message: unknownEndMessage, ExitCode: unknownEndExitCode, ContainerID: status.ContainerID,
			}
			if running := status.State.Running; running != nil {
				terminated.StartedAt, terminated.FinishedAt = running.StartedAt, transition(now)
			}
			status.State = corev1.ContainerState{Terminated: terminated}
		}
		ended = append(ended, status)
	}
	return ended
}
