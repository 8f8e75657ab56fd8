package podend

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestByDeletion(t *testing.T) {
	asked := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ended := func(after time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(asked.Add(after))},
		}}
	}
	cases := map[string]struct {
		phase      corev1.PodPhase
		kept       bool
		containers []corev1.ContainerStatus
		want       bool
	}{
		"a pod that runs has not ended":                           {phase: corev1.PodRunning, containers: []corev1.ContainerStatus{ended(-time.Hour)}},
		"a pod that failed and stays ended by itself":             {phase: corev1.PodFailed, kept: true, containers: []corev1.ContainerStatus{ended(time.Hour)}},
		"a container that ended after the request was told to":    {phase: corev1.PodFailed, containers: []corev1.ContainerStatus{ended(2 * time.Second)}, want: true},
		"one that ended in good order as well":                    {phase: corev1.PodSucceeded, containers: []corev1.ContainerStatus{ended(time.Second)}, want: true},
		"all that ended before the request did so by themselves":  {phase: corev1.PodSucceeded, containers: []corev1.ContainerStatus{ended(-time.Hour), ended(-time.Second)}},
		"one of two that was still running makes the difference":  {phase: corev1.PodFailed, containers: []corev1.ContainerStatus{ended(-time.Hour), ended(time.Second)}, want: true},
		"without containers it never ran":                         {phase: corev1.PodFailed, want: true},
		"a container that says nothing of its end was not waited": {phase: corev1.PodFailed, containers: []corev1.ContainerStatus{{}}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{Phase: tc.phase, ContainerStatuses: tc.containers}}
			if !tc.kept {
				deadline := metav1.NewTime(asked.Add(30 * time.Second))
				pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deadline, ptr.To[int64](30)
			}
			assert.Equal(t, tc.want, ByDeletion(pod))
		})
	}
}
