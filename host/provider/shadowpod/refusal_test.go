package shadowpod

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

func full() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("exceeded quota: five"))
}

const fullMessage = `pods "web" is forbidden: exceeded quota: five`

func saying(message string) func(*offloadingv1beta1.ShadowPod) {
	return func(s *offloadingv1beta1.ShadowPod) {
		s.Status.Reason, s.Status.Message = offloadingv1beta1.FailedCreatePodReason, message
	}
}

func TestARefusedPodIsRetriedAndTold(t *testing.T) {
	refused := full()
	out := world{shadow: shadow(nil), faults: map[string]error{"create pod": refused}}.pass(t)
	require.ErrorIs(t, out.err, refused, "it is tried again")
	require.Len(t, out.events, 1)
	assert.Equal(t, "Warning FailedCreatePod Pod not created: "+fullMessage, out.events[0])
	assert.Equal(t, []string{"create pod", "patch shadowpod status"}, out.writes)
	assert.Equal(t, offloadingv1beta1.ShadowPodStatus{Phase: corev1.PodUnknown, Reason: "FailedCreatePod", Message: fullMessage}, out.shadow.Status)
}

func TestARefusalIsWrittenOncePerCause(t *testing.T) {
	faults := map[string]error{"create pod": full()}
	out := world{shadow: shadow(saying(fullMessage)), faults: faults}.pass(t)
	assert.Equal(t, []string{"create pod"}, out.writes, "it is known")
	out = world{shadow: shadow(saying("another cause")), faults: faults}.pass(t)
	assert.Equal(t, []string{"create pod", "patch shadowpod status"}, out.writes)
	assert.Equal(t, fullMessage, out.shadow.Status.Message)

	faults["create pod"] = apierrors.NewBadRequest(strings.Repeat("é", 1000))
	out = world{shadow: shadow(nil), faults: faults}.pass(t)
	assert.LessOrEqual(t, len(out.shadow.Status.Message), maxMessage)
	out = world{shadow: out.shadow, faults: faults}.pass(t)
	assert.Equal(t, []string{"create pod"}, out.writes, "one that was cut is known as well")
}

func TestAPodThatExistsEndsItsRefusal(t *testing.T) {
	cases := map[string]struct {
		phase, reported corev1.PodPhase
		age             time.Duration
		writes          []string
		message         string
	}{
		"a new pod runs":                      {phase: corev1.PodRunning, reported: corev1.PodUnknown, writes: []string{"patch shadowpod status"}},
		"a new pod stays pending":             {phase: corev1.PodPending, reported: corev1.PodUnknown, age: time.Minute, writes: []string{"patch shadowpod status"}},
		"a pod has just become pending":       {phase: corev1.PodPending, reported: corev1.PodUnknown, message: fullMessage},
		"the phase is that of the pod before": {phase: corev1.PodRunning, reported: corev1.PodRunning, writes: []string{"patch shadowpod status"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := shadow(saying(fullMessage))
			s.Status.Phase = tc.reported
			out := world{shadow: s, pod: ownPod(s, tc.phase, tc.age)}.pass(t)
			require.NoError(t, out.err)
			assert.Equal(t, tc.writes, out.writes)
			assert.Equal(t, tc.message, out.shadow.Status.Message)
			assert.Equal(t, tc.message != "", out.shadow.Status.Reason != "")
		})
	}
}

func TestWhatIsTold(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 418, Message: "a webhook says no"}}
	cases := map[string]struct {
		err  error
		want string
	}{
		"a quota":                         {err: full(), want: fullMessage},
		"a webhook's own code":            {err: denied, want: "a webhook says no"},
		"a webhook that cannot be asked":  {err: apierrors.NewInternalError(errors.New("failed calling webhook")), want: "Internal error occurred: failed calling webhook"},
		"a quota that somebody changes":   {err: apierrors.NewConflict(pods, "five", errors.New("modified"))},
		"a busy API server":               {err: apierrors.NewTooManyRequests("later", 1)},
		"one that takes too long":         {err: apierrors.NewTimeoutError("slow", 1)},
		"one that does not take requests": {err: apierrors.NewServiceUnavailable("down")},
		"one that is not reached":         {err: errors.New("connection refused")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, refusal(tc.err)) })
	}
}
