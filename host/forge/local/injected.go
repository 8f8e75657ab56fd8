package local

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/host/kit/apitime"
	"github.com/longshore-dev/longshore/host/kit/podend"
)

// What a kubelet writes about a pod whose containers are not ready, or have ended.
const (
	containersNotReadyReason = "ContainersNotReady"
	podCompletedReason       = "PodCompleted"
	podFailedReason          = "PodFailed"
)

// InjectedContainers returns the names of the containers in the status of a remote pod that the local pod does not
// have: webhooks or policies have added them.
func InjectedContainers(status *corev1.PodStatus, spec *corev1.PodSpec) []string {
	var names []string
	for i := range status.InitContainerStatuses {
		if name := status.InitContainerStatuses[i].Name; !slices.ContainsFunc(spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }) {
			names = append(names, name)
		}
	}
	for i := range status.ContainerStatuses {
		if name := status.ContainerStatuses[i].Name; !slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// followOwnContainers makes the phase of a pod with injected containers that which a kubelet reports of the local
// pod's containers. Otherwise a sidecar of the provider would keep a Job from completing. A
// terminal phase is final, with its reason.
func followOwnContainers(status *corev1.PodStatus, in PodStatusInput) {
	phase := ownPhase(status, &in.Local.Spec)
	if podend.IsTerminal(in.Local.Status.Phase) {
		status.Phase, status.Reason, status.Message = in.Local.Status.Phase, in.Local.Status.Reason, in.Local.Status.Message
	} else if phase != status.Phase {
		status.Phase, status.Reason, status.Message = phase, "", ""
	}
}

// followOwnReadiness sets the conditions of readiness by the pod's own containers where the provider's are by others,
// or are true in vain: of a container that has ended and was created again, for example, the end stays.
func followOwnReadiness(status *corev1.PodStatus, in PodStatusInput, isInjected bool) {
	isUnready := slices.ContainsFunc(status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return !s.Ready })
	for _, conditionType := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		condition := podCondition(status, conditionType)
		if condition != nil && (isInjected || isUnready && condition.Status == corev1.ConditionTrue) {
			setOwnReadiness(condition, status, in)
		}
	}
}

// setOwnReadiness sets a condition of readiness by the pod's own containers.
func setOwnReadiness(condition *corev1.PodCondition, status *corev1.PodStatus, in PodStatusInput) {
	before, at, spec := condition.Status, transition(in.Now), &in.Local.Spec
	isReady := areReady(status, spec)
	switch {
	case podend.IsTerminal(status.Phase):
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, podCompletedReason, ""
		if status.Phase == corev1.PodFailed {
			condition.Reason = podFailedReason
		}
		at = lastEnd(status)
	case condition.Status == corev1.ConditionTrue && !isReady:
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, containersNotReadyReason, ""
	case condition.Reason == containersNotReadyReason && isReady && (condition.Type != corev1.PodReady || areGatesTrue(status, spec)):
		condition.Status, condition.Reason, condition.Message = corev1.ConditionTrue, "", ""
	}
	if condition.Status == before {
		return
	}
	condition.LastTransitionTime = at
	if had := podCondition(&in.Local.Status, condition.Type); had != nil && had.Status == condition.Status {
		condition.LastTransitionTime = had.LastTransitionTime
	}
}

// ownPhase returns the phase by the statuses of the pod's own containers, and that of the remote pod where they do not
// decide.
func ownPhase(status *corev1.PodStatus, spec *corev1.PodSpec) corev1.PodPhase {
	all, running, ended, hasFailed, restarts := len(spec.Containers), 0, 0, false, false
	if all == 0 {
		return status.Phase
	}
	for i := range status.ContainerStatuses {
		s := &status.ContainerStatuses[i]
		if s.State.Running != nil {
			running++
		}
		if end := s.State.Terminated; end != nil {
			ended++
			hasFailed = hasFailed || end.ExitCode != 0
			restarts = restarts || mayRestart(s.Name, end.ExitCode, spec.Containers, spec)
		}
	}
	hasEnded := ended == all && (podend.IsTerminal(status.Phase) || !restarts)
	switch {
	case hasEnded && hasFailed:
		return corev1.PodFailed
	case hasEnded:
		return corev1.PodSucceeded
	case running+ended == all && status.Phase == corev1.PodPending:
		return corev1.PodRunning
	default:
		return status.Phase
	}
}

// areReady reports whether all containers of the pod that go on are ready.
func areReady(status *corev1.PodStatus, spec *corev1.PodSpec) bool {
	isReady := func(statuses []corev1.ContainerStatus, container *corev1.Container) bool {
		return slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == container.Name && s.Ready })
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; c.RestartPolicy != nil && !isReady(status.InitContainerStatuses, c) {
			return false
		}
	}
	for i := range spec.Containers {
		if !isReady(status.ContainerStatuses, &spec.Containers[i]) {
			return false
		}
	}
	return true
}

func areGatesTrue(status *corev1.PodStatus, spec *corev1.PodSpec) bool {
	return !slices.ContainsFunc(spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool {
		condition := podCondition(status, gate.ConditionType)
		return condition == nil || condition.Status != corev1.ConditionTrue
	})
}

// lastEnd returns when the last container of a pod ended.
func lastEnd(status *corev1.PodStatus) metav1.Time {
	var last time.Time
	for i := range status.ContainerStatuses {
		if ended := status.ContainerStatuses[i].State.Terminated; ended != nil && ended.FinishedAt.After(last) {
			last = ended.FinishedAt.Time
		}
	}
	return apitime.Bound(metav1.NewTime(last))
}
