package shadowpod

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What refuses a change may stand for long, but one failure of a webhook or of the API server must
// not keep the pod from its new image for minutes.
func TestARefusedChangeOfAPodIsTriedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		fault  error
		want   time.Duration
		events int
	}{
		"a refusal":         {apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("quiet hours")), longestPause, 1},
		"an internal error": {apierrors.NewInternalError(errors.New("failed calling webhook")), creationRetry, 1},
		"a conflict":        {apierrors.NewConflict(corev1.Resource("pods"), "web", errors.New("changed")), conflictRetry, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := shadow(nil)
			pod := ownPod(s, corev1.PodRunning, 0)
			s.Spec.Pod.Containers[0].Image = "web:2"
			out := state{shadow: s, pod: pod, faults: map[string]error{"patch pod": tc.fault}}.reconcile(t)
			require.NoError(t, out.err)
			assert.Equal(t, []string{"patch pod"}, out.writes)
			assert.Equal(t, tc.want, out.result.RequeueAfter)
			assert.Len(t, out.events, tc.events)
			assert.Equal(t, "web:1", out.pod.Spec.Containers[0].Image)
		})
	}
}

func TestSoonest(t *testing.T) {
	assert.Zero(t, soonest(0, 0))
	assert.Equal(t, time.Second, soonest(0, time.Minute, time.Second))
}
