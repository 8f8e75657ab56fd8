package local_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/host/forge/local"
)

func ended(name string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed"}}}
}

func runningContainer(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Ready: true, ContainerID: "id", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(earlier)}}}
}

// Each end of a local pod has the phase and the exit codes that a kubelet writes.
func TestAPodThatIsDeletedEnds(t *testing.T) {
	lost := func(name string, running bool) corev1.ContainerStatus {
		status := corev1.ContainerStatus{Name: name, Image: name + ":1"}
		terminated := &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated"}
		if running {
			status.Image = ""
			status.ContainerID, terminated.ContainerID = "id", "id"
			terminated.StartedAt, terminated.FinishedAt = metav1.NewTime(earlier), nowSec
		}
		status.State.Terminated = terminated
		return status
	}
	for name, tc := range map[string]struct {
		phase              corev1.PodPhase
		init, containers   []corev1.ContainerStatus
		wantPhase          corev1.PodPhase
		wantInit, wantMain []corev1.ContainerStatus
	}{
		"it never started": {
			corev1.PodPending, nil, nil, corev1.PodFailed,
			[]corev1.ContainerStatus{lost("init", false)}, []corev1.ContainerStatus{lost("web", false), lost("log", false)},
		},
		"it runs": {
			corev1.PodRunning, []corev1.ContainerStatus{ended("init", 0)}, []corev1.ContainerStatus{runningContainer("web"), runningContainer("log")}, corev1.PodFailed,
			[]corev1.ContainerStatus{ended("init", 0)}, []corev1.ContainerStatus{lost("web", true), lost("log", true)},
		},
		"one container has failed": {
			corev1.PodRunning, []corev1.ContainerStatus{ended("init", 0)}, []corev1.ContainerStatus{ended("web", 3), ended("log", 0)}, corev1.PodFailed,
			[]corev1.ContainerStatus{ended("init", 0)}, []corev1.ContainerStatus{ended("web", 3), ended("log", 0)},
		},
		"all have ended well, and a sidecar runs": {
			corev1.PodRunning, []corev1.ContainerStatus{runningContainer("init")}, []corev1.ContainerStatus{ended("web", 0), ended("log", 0)}, corev1.PodSucceeded,
			[]corev1.ContainerStatus{lost("init", true)}, []corev1.ContainerStatus{ended("web", 0), ended("log", 0)},
		},
		"a container of the provider does not matter": {
			corev1.PodRunning, []corev1.ContainerStatus{ended("init", 0)}, []corev1.ContainerStatus{ended("injected", 1), ended("web", 0), ended("log", 0)}, corev1.PodSucceeded,
			[]corev1.ContainerStatus{ended("init", 0)}, []corev1.ContainerStatus{ended("web", 0), ended("log", 0)},
		},
		"its phase is terminal": {
			corev1.PodSucceeded, nil, []corev1.ContainerStatus{ended("web", 0)}, corev1.PodSucceeded, nil, []corev1.ContainerStatus{ended("web", 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "init", Image: "init:1"}}, Containers: []corev1.Container{{Name: "web", Image: "web:1"}, {Name: "log", Image: "log:1"}},
			}, Status: corev1.PodStatus{Phase: tc.phase, Reason: "RemotePodRefused", InitContainerStatuses: tc.init, ContainerStatuses: tc.containers}}
			before := pod.DeepCopy()
			status := local.EndedPodStatus(pod, now)
			assert.Equal(t, before, pod, "the argument is shared")
			assert.Equal(t, tc.wantPhase, status.Phase)
			assert.Equal(t, "RemotePodRefused", status.Reason, "why it never ran")
			assert.Equal(t, tc.wantInit, status.InitContainerStatuses)
			assert.Equal(t, tc.wantMain, status.ContainerStatuses)
			pod.Status = *status
			assert.Equal(t, status, local.EndedPodStatus(pod, now.Add(time.Hour)), "a second time changes nothing")
		})
	}
}

// A Job decides by the condition DisruptionTarget whether a failed pod counts. The consumer sets it when the pod is
// evicted, before the remote pod ends.
func TestADisruptionStaysKnown(t *testing.T) {
	disrupted := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.NewTime(earlier)}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{ready, disrupted}}}
	pod.DeletionTimestamp = &nowSec
	theirs := disrupted
	theirs.Reason = "TerminationByKubelet"
	remote := func(conditions ...corev1.PodCondition) *corev1.PodStatus {
		return local.PodStatus(local.PodStatusInput{Local: pod, Remote: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: conditions}}, Now: now})
	}
	for name, status := range map[string]*corev1.PodStatus{
		"the pod is deleted":                   local.EndedPodStatus(pod, now),
		"its offloading is aborted":            local.RejectedPodStatus(&pod.Status, corev1.PodFailed, "OffloadingAborted", "m", now),
		"the remote pod reports":               remote(ready),
		"the remote pod is disrupted, too":     remote(theirs, ready),
		"the remote pod reports no disruption": remote(corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse}),
	} {
		t.Run(name, func(t *testing.T) { assert.Contains(t, status.Conditions, disrupted) })
	}
	pod.DeletionTimestamp = nil
	assert.NotContains(t, remote(ready).Conditions, disrupted, "one that was of an earlier remote pod ends with it")
	pod.Status.Conditions = nil
	assert.Contains(t, remote(theirs).Conditions, theirs, "a disruption in the provider is one of the local pod")
}
