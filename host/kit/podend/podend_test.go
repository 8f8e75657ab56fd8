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
		"a pod that runs has not ended":                        {phase: corev1.PodRunning, reported: corev1.PodRunning},
		"a pod that failed and is not deleted ended by itself": {phase: corev1.PodFailed, reported: corev1.PodRunning, kept: true},
		"a pod that fails while it is deleted":                 {phase: corev1.PodFailed, reported: corev1.PodRunning, want: true},
		"one that ends in good order as well":                  {phase: corev1.PodSucceeded, reported: corev1.PodRunning, want: true},
		"one that never ran":                                   {phase: corev1.PodFailed, reported: corev1.PodUnknown, want: true},
		"one of which nothing was recorded":                    {phase: corev1.PodFailed, want: true},
		"one whose success was recorded before":                {phase: corev1.PodSucceeded, reported: corev1.PodSucceeded},
		"one whose failure was recorded before":                {phase: corev1.PodFailed, reported: corev1.PodFailed},
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
