package local_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/host/forge/local"
)

// The provider adds containers to the remote pod. The local pod is that of its own containers.
func TestInjectedContainersDoNotCount(t *testing.T) {
	waits := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}
	}
	at := func(status corev1.ContainerStatus) corev1.ContainerStatus {
		status.State.Terminated.FinishedAt = metav1.NewTime(earlier)
		return status
	}
	const notReady = "ContainersNotReady"
	for name, tc := range map[string]struct {
		policy     corev1.RestartPolicy
		phase      corev1.PodPhase
		containers []corev1.ContainerStatus
		gate       corev1.ConditionStatus
		want       corev1.PodPhase
		wantReason string // of the condition Ready; "" if it is true
	}{
		"a sidecar runs on":                      {"Never", "Running", []corev1.ContainerStatus{at(ended("web", 0)), runningContainer("proxy")}, "", "Succeeded", "PodCompleted"},
		"a sidecar runs on after a failure":      {"Never", "Running", []corev1.ContainerStatus{at(ended("web", 3)), runningContainer("proxy")}, "", "Failed", "PodFailed"},
		"a failure that is tried again":          {"OnFailure", "Running", []corev1.ContainerStatus{at(ended("web", 3)), runningContainer("proxy")}, "", "Running", notReady},
		"a container that is always restarted":   {"Always", "Running", []corev1.ContainerStatus{at(ended("web", 0)), runningContainer("proxy")}, "", "Running", notReady},
		"a sidecar has failed, too":              {"Never", "Failed", []corev1.ContainerStatus{at(ended("web", 0)), ended("proxy", 137)}, "", "Succeeded", "PodCompleted"},
		"the pod is evicted":                     {"Always", "Failed", []corev1.ContainerStatus{runningContainer("web"), ended("proxy", 137)}, "", "Failed", "PodFailed"},
		"a sidecar is not ready":                 {"Always", "Running", []corev1.ContainerStatus{runningContainer("web"), waits("proxy")}, "True", "Running", ""},
		"a sidecar does not start":               {"Always", "Pending", []corev1.ContainerStatus{runningContainer("web"), waits("proxy")}, "True", "Running", ""},
		"a gate is not true":                     {"Always", "Running", []corev1.ContainerStatus{runningContainer("web"), waits("proxy")}, "False", "Running", notReady},
		"the pod's own container does not start": {"Always", "Pending", []corev1.ContainerStatus{waits("web"), runningContainer("proxy")}, "True", "Pending", notReady},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(0)
			pod.Spec.Containers, pod.Spec.RestartPolicy, pod.Status.Phase = []corev1.Container{{Name: "web"}}, tc.policy, corev1.PodRunning
			condition := func(kind corev1.PodConditionType) corev1.PodCondition {
				return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: notReady, Message: "containers with unready status: [proxy]"}
			}
			reported := corev1.PodStatus{
				Phase: tc.phase, Reason: "DeadlineExceeded", ContainerStatuses: tc.containers, InitContainerStatuses: []corev1.ContainerStatus{ended("proxy-init", 0)},
				Conditions: []corev1.PodCondition{condition(corev1.ContainersReady), condition(corev1.PodReady), {Type: "example.com/gate", Status: tc.gate}},
			}
			in := local.PodStatusInput{Local: pod, Remote: &corev1.Pod{Status: reported}, Now: now}
			status := local.PodStatus(in)
			assert.Equal(t, []string{"proxy-init", "proxy"}, local.InjectedContainers(&reported, &pod.Spec))
			assert.Empty(t, status.InitContainerStatuses)
			assert.Len(t, status.ContainerStatuses, 1, "kubectl counts them")
			assert.Equal(t, tc.want, status.Phase)
			if tc.want != tc.phase {
				assert.Empty(t, status.Reason, "it says why the remote pod has that phase")
			}
			assert.Equal(t, tc.wantReason == "", local.IsReady(status))
			assert.Equal(t, tc.wantReason, status.Conditions[1].Reason)

			pod.Status = *status
			in.Now = now.Add(time.Hour)
			assert.Equal(t, status, local.PodStatus(in), "a second time changes nothing")
			if tc.want == corev1.PodSucceeded {
				in.Remote.Status.Phase, in.Remote.Status.Reason = corev1.PodFailed, "DeadlineExceeded"
				assert.Equal(t, status, local.PodStatus(in), "a terminal phase is final")
			}
		})
	}
}

// A provider says that a pod is ready, and reports containers that the pod does not have.
func TestAPodIsReadyByItsOwnContainers(t *testing.T) {
	condition := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(earlier)}
	}
	for name, tc := range map[string]struct {
		own     []corev1.ContainerStatus
		foreign int
		isReady bool
	}{
		"none of its own": {foreign: 500}, "its own waits": {own: []corev1.ContainerStatus{{Name: "web"}}, foreign: 500},
		"its own is ready":                         {own: []corev1.ContainerStatus{runningContainer("web")}, foreign: 500, isReady: true},
		"its own waits, and only it":               {own: []corev1.ContainerStatus{{Name: "web"}}},
		"its own is ready, and it is the only one": {own: []corev1.ContainerStatus{runningContainer("web")}, isReady: true},
		"no container is reported":                 {isReady: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(0)
			pod.Spec.Containers = []corev1.Container{{Name: "web"}}
			reported := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: tc.own, Conditions: []corev1.PodCondition{condition(corev1.ContainersReady), condition(corev1.PodReady)}}
			for i := range tc.foreign {
				reported.ContainerStatuses = append(reported.ContainerStatuses, runningContainer(fmt.Sprint("proxy-", i)))
			}
			in := local.PodStatusInput{Local: pod, Remote: &corev1.Pod{Status: reported}, Now: now}
			status := local.PodStatus(in)
			assert.Equal(t, tc.isReady, local.IsReady(status))
			for _, c := range status.Conditions {
				assert.Equal(t, tc.isReady, c.Status == corev1.ConditionTrue, c.Type)
				assert.Equal(t, !tc.isReady, c.Reason == "ContainersNotReady", c.Type)
			}
			pod.Status, in.Now = *status, now.Add(time.Hour)
			assert.Equal(t, status, local.PodStatus(in), "a second time changes nothing")
		})
	}
}
