package local_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/forge/local"
)

func state(code int32) corev1.ContainerState {
	if code < 0 {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
}

// runs stands for a container that has not terminated.
const runs = -1

func TestAContainerThatMayNotRestartStaysTerminated(t *testing.T) {
	rules := func(action corev1.ContainerRestartRuleAction, operator corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) []corev1.ContainerRestartRule {
		return []corev1.ContainerRestartRule{{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes}}}
	}
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	cases := map[string]struct {
		policy    corev1.RestartPolicy
		container corev1.Container
		code      int32
		stays     bool
	}{
		"never":                                {policy: corev1.RestartPolicyNever, stays: true},
		"on failure, and it succeeded":         {policy: corev1.RestartPolicyOnFailure, stays: true},
		"on failure, and it failed":            {policy: corev1.RestartPolicyOnFailure, code: 1},
		"always":                               {policy: corev1.RestartPolicyAlways},
		"always is the default":                {},
		"never, but this one always":           {policy: corev1.RestartPolicyNever, container: corev1.Container{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		"always, but this one never":           {policy: corev1.RestartPolicyAlways, container: corev1.Container{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyNever)}, stays: true},
		"a rule for its exit code":             {policy: corev1.RestartPolicyNever, code: 42, container: corev1.Container{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyNever), RestartPolicyRules: rules(corev1.ContainerRestartRuleActionRestart, in, 42)}},
		"a rule for another exit code":         {policy: corev1.RestartPolicyNever, code: 1, container: corev1.Container{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyNever), RestartPolicyRules: rules(corev1.ContainerRestartRuleActionRestart, in, 42)}, stays: true},
		"a rule for all other exit codes":      {policy: corev1.RestartPolicyNever, code: 1, container: corev1.Container{RestartPolicy: ptr.To(corev1.ContainerRestartPolicyNever), RestartPolicyRules: rules(corev1.ContainerRestartRuleActionRestart, notIn, 42)}},
		"an exit that restarts all containers": {policy: corev1.RestartPolicyNever, container: corev1.Container{RestartPolicyRules: rules(corev1.ContainerRestartRuleActionRestartAllContainers, in, 42)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.container.Name = "web"
			pod := &corev1.Pod{
				Spec:   corev1.PodSpec{RestartPolicy: tc.policy, Containers: []corev1.Container{tc.container}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: state(tc.code)}}},
			}
			remote := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: state(runs), Ready: true}}}}
			status := local.PodStatus(local.PodStatusInput{Local: pod, Remote: remote, Now: now})
			got := status.ContainerStatuses[0]
			silent := local.PodStatus(local.PodStatusInput{Local: pod, Remote: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, Now: now})
			assert.Equal(t, tc.stays, len(silent.ContainerStatuses) == 1, "a remote pod that reports no containers yet")
			if tc.stays {
				assert.Equal(t, state(tc.code), got.State)
				assert.False(t, got.Ready)
				return
			}
			assert.Equal(t, state(runs), got.State)
			assert.True(t, got.Ready)
		})
	}
}

func TestContainersThatTerminateInAPodThatIsReplaced(t *testing.T) {
	deleted := func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
	keep := func(*corev1.Pod) {}
	cases := map[string]struct {
		local, remote func(*corev1.Pod)
		phase         corev1.PodPhase
		want          int32
	}{
		"keep running here, since they run again":             {keep, deleted, corev1.PodRunning, runs},
		"have terminated when the remote pod stays":           {keep, keep, corev1.PodRunning, 143},
		"have terminated when the local pod is deleted":       {deleted, deleted, corev1.PodRunning, 143},
		"have terminated when that is the end of the pod too": {keep, deleted, corev1.PodFailed, 143},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec:   corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "web"}}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: state(runs), Ready: true}}},
			}
			remote := &corev1.Pod{Status: corev1.PodStatus{Phase: tc.phase, ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: state(143)}}}}
			tc.local(pod)
			tc.remote(remote)
			before := pod.DeepCopy()
			status := local.PodStatus(local.PodStatusInput{Local: pod, Remote: remote, Now: now})
			assert.Equal(t, state(tc.want), status.ContainerStatuses[0].State)
			assert.False(t, status.ContainerStatuses[0].Ready)
			assert.Equal(t, before, pod, "the argument is shared")
		})
	}
}
