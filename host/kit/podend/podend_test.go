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
	deleted := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		phase, reported corev1.PodPhase
		kept            bool
		want            bool
	}{
		"runs":                               {phase: corev1.PodRunning, reported: corev1.PodRunning},
		"failed and is not deleted":          {phase: corev1.PodFailed, reported: corev1.PodRunning, kept: true},
		"fails while it is being deleted":    {phase: corev1.PodFailed, reported: corev1.PodRunning, want: true},
		"succeeds while it is being deleted": {phase: corev1.PodSucceeded, reported: corev1.PodRunning, want: true},
		"never ran":                          {phase: corev1.PodFailed, reported: corev1.PodUnknown, want: true},
		"no phase is recorded":               {phase: corev1.PodFailed, want: true},
		"success was recorded before":        {phase: corev1.PodSucceeded, reported: corev1.PodSucceeded},
		"failure was recorded before":        {phase: corev1.PodFailed, reported: corev1.PodFailed},
	}
	// The node's clock may be far off in both directions.
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		for name, tc := range cases {
			t.Run(name+", skew "+skew.String(), func(t *testing.T) {
				pod := &corev1.Pod{Status: corev1.PodStatus{Phase: tc.phase, ContainerStatuses: []corev1.ContainerStatus{{
					State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(deleted.Add(skew))}},
				}}}}
				if !tc.kept {
					pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(deleted.Add(30*time.Second))), ptr.To[int64](30)
				}
				assert.Equal(t, tc.want, ByDeletion(pod, tc.reported))
			})
		}
	}
}
