package local

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/host/kit/podend"
)

// keepTerminatedContainers makes container statuses valid for the API server: a container that
// has terminated and may not restart must stay terminated. The local pod keeps the state of
// such a container if the provider replaces the remote pod and runs it again. A container that
// terminates because the provider deletes the remote pod keeps its earlier state, because its
// replacement will run.
func keepTerminatedContainers(status *corev1.PodStatus, in PodStatusInput) {
	replaced := in.Remote.DeletionTimestamp != nil && in.Local.DeletionTimestamp == nil && !podend.IsTerminal(status.Phase)
	spec, have := &in.Local.Spec, &in.Local.Status
	status.InitContainerStatuses = keepTerminated(status.InitContainerStatuses, have.InitContainerStatuses, spec.InitContainers, spec, replaced)
	status.ContainerStatuses = keepTerminated(status.ContainerStatuses, have.ContainerStatuses, spec.Containers, spec, replaced)
	status.EphemeralContainerStatuses = keepTerminated(status.EphemeralContainerStatuses, have.EphemeralContainerStatuses, nil, spec, replaced)
}

// keepTerminated returns statuses with those of have that must not change. A container without
// a status in a new remote pod stays terminated, too.
func keepTerminated(statuses, have []corev1.ContainerStatus, containers []corev1.Container, spec *corev1.PodSpec, replaced bool) []corev1.ContainerStatus {
	for i := range have {
		before := have[i].State.Terminated
		at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == have[i].Name })
		if at < 0 {
			if before != nil && !mayRestart(have[i].Name, before.ExitCode, containers, spec) {
				statuses = append(statuses, *have[i].DeepCopy())
			}
			continue
		}
		after := statuses[at].State.Terminated
		switch {
		case before != nil && after == nil && !mayRestart(have[i].Name, before.ExitCode, containers, spec),
			replaced && before == nil && after != nil && !mayRestart(have[i].Name, after.ExitCode, containers, spec):
			statuses[at] = *have[i].DeepCopy()
			statuses[at].Ready = false
		}
	}
	return statuses
}

// mayRestart reports whether the API server allows a terminated container to run again
// (ValidateContainerStateTransition of Kubernetes).
func mayRestart(name string, exitCode int32, containers []corev1.Container, spec *corev1.PodSpec) bool {
	if restartsAll(spec) {
		return true
	}
	at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if at < 0 {
		return false
	}
	container := &containers[at]
	policy := spec.RestartPolicy
	if container.RestartPolicy != nil {
		if restartsByRule(container, exitCode) {
			return true
		}
		policy = corev1.RestartPolicy(*container.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

// restartsAll reports whether the exit of one container can restart all others.
func restartsAll(spec *corev1.PodSpec) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if slices.ContainsFunc(containers[i].RestartPolicyRules, func(rule corev1.ContainerRestartRule) bool {
				return rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
			}) {
				return true
			}
		}
	}
	return false
}

// restartsByRule reports whether the first rule that matches an exit code restarts the
// container.
func restartsByRule(container *corev1.Container, exitCode int32) bool {
	for i := range container.RestartPolicyRules {
		rule := &container.RestartPolicyRules[i]
		if rule.ExitCodes == nil {
			continue
		}
		listed := slices.Contains(rule.ExitCodes.Values, exitCode)
		if listed == (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return rule.Action == corev1.ContainerRestartRuleActionRestart
		}
	}
	return false
}
