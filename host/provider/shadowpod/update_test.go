package shadowpod

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
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

// TestAnEarlierVersionRecordedNoHash has a pod whose annotation has digests of 32 bits only.
func TestAnEarlierVersionRecordedNoHash(t *testing.T) {
	s := shadow(func(s *offloadingv1beta1.ShadowPod) {
		s.Spec.Pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	})
	pod := ownPod(s, corev1.PodRunning, 0)
	whole := pod.Annotations[podupdate.AppliedAnnotation]
	pod.Annotations[podupdate.AppliedAnnotation] = regexp.MustCompile(`\.[^,]*`).ReplaceAllString(whole, "")
	require.NotEqual(t, whole, pod.Annotations[podupdate.AppliedAnnotation])
	out := state{shadow: s, pod: pod}.reconcile(t)
	require.NoError(t, out.err)
	assert.Equal(t, []string{"patch pod"}, out.writes, "the pod keeps its spec")
	assert.Equal(t, whole, out.pod.Annotations[podupdate.AppliedAnnotation])
}

// TestThePhaseIsReportedWhateverKeepsAPodFromBeingChanged has pods that have ended: without the phase,
// they would run again once they are removed.
func TestThePhaseIsReportedWhateverKeepsAPodFromBeingChanged(t *testing.T) {
	resize := func(s *offloadingv1beta1.ShadowPod) {
		s.Spec.Pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	}
	for name, tc := range map[string]struct {
		change func(*offloadingv1beta1.ShadowPod)
		faults map[string]error
		event  string
		isErr  bool
	}{
		"an API server without resizes (before 1.33)": {
			change: resize, faults: map[string]error{"patch pod resize": apierrors.NewGenericServerResponse(404, "patch", corev1.Resource("pods"), "web", "", 0, true)},
			event: `has no subresource "resize" of pods`,
		},
		"an image that cannot be sent": {
			change: func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.Containers[0].Image = "web:2" },
			faults: map[string]error{"patch pod": apierrors.NewTooManyRequestsError("later")}, isErr: true,
		},
		"metadata that cannot be sent": {
			change: func(s *offloadingv1beta1.ShadowPod) { s.Labels["team"] = "b" },
			faults: map[string]error{"patch pod": apierrors.NewTooManyRequestsError("later")}, isErr: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := shadow(func(s *offloadingv1beta1.ShadowPod) {
				s.Spec.Pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			})
			pod := ownPod(s, corev1.PodSucceeded, 0)
			tc.change(s)
			out := state{shadow: s, pod: pod, faults: tc.faults}.reconcile(t)
			assert.Equal(t, tc.isErr, out.err != nil, "%v", out.err)
			assert.Equal(t, corev1.PodSucceeded, out.shadow.Status.Phase)
			if tc.event != "" {
				require.Len(t, out.events, 1)
				assert.Contains(t, out.events[0], tc.event)
				assert.Equal(t, longestPause, out.result.RequeueAfter)
			}
		})
	}
}

func TestSoonest(t *testing.T) {
	assert.Zero(t, soonest(0, 0))
	assert.Equal(t, time.Second, soonest(0, time.Minute, time.Second))
}

// TestAnEphemeralContainerIsAddedToAPodOnANode has a pod that the scheduler has bound: a ShadowPod may not
// name a node, but its pod has one.
func TestAnEphemeralContainerIsAddedToAPodOnANode(t *testing.T) {
	s := shadow(nil)
	pod := ownPod(s, corev1.PodRunning, 0)
	pod.Spec.NodeName = "worker"
	s.Spec.Pod.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger", Image: "busybox"}}}
	out := state{shadow: s, pod: pod}.reconcile(t)
	require.NoError(t, out.err)
	assert.Empty(t, out.events)
	require.Len(t, out.pod.Spec.EphemeralContainers, 1)
}
