package shadowpod

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/reported"
)

func quotaExceeded() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("exceeded quota: five"))
}

const quotaMessage = `pods "web" is forbidden: exceeded quota: five`

func refusedWith(message string) func(*offloadingv1beta1.ShadowPod) {
	return func(s *offloadingv1beta1.ShadowPod) {
		s.Status.Reason, s.Status.Message = offloadingv1beta1.FailedCreatePodReason, message
	}
}

func TestRefusalIsReported(t *testing.T) {
	refused := quotaExceeded()
	out := state{shadow: shadow(nil), faults: map[string]error{"create pod": refused}}.reconcile(t)
	require.ErrorIs(t, out.err, refused)
	require.True(t, isRetriedSilently(t, out.err))
	require.Len(t, out.events, 1)
	assert.Equal(t, "Warning FailedCreatePod Pod not created: "+quotaMessage, out.events[0])
	assert.Equal(t, []string{"create pod", "patch shadowpod status"}, out.writes)
	assert.Equal(t, offloadingv1beta1.ShadowPodStatus{Phase: corev1.PodUnknown, Reason: "FailedCreatePod", Message: quotaMessage}, out.shadow.Status)
}

// isRetriedSilently reports whether the controller logs no error.
func isRetriedSilently(t *testing.T, failure error) bool {
	t.Helper()
	result, err := reported.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, failure
	})).Reconcile(t.Context(), reconcile.Request{})
	return err == nil && result.RequeueAfter > 0
}

func TestARefusalThatIsNotReportedIsAnError(t *testing.T) {
	lost := errors.New("connection lost")
	out := state{shadow: shadow(nil), faults: map[string]error{"create pod": quotaExceeded(), "patch shadowpod status": lost}}.reconcile(t)
	require.ErrorIs(t, out.err, lost)
	assert.False(t, isRetriedSilently(t, out.err))
}

func TestRefusalIsReportedOncePerCause(t *testing.T) {
	faults := map[string]error{"create pod": quotaExceeded()}
	out := state{shadow: shadow(refusedWith(quotaMessage)), faults: faults}.reconcile(t)
	assert.Equal(t, []string{"create pod"}, out.writes)
	out = state{shadow: shadow(refusedWith("another cause")), faults: faults}.reconcile(t)
	assert.Equal(t, []string{"create pod", "patch shadowpod status"}, out.writes)
	assert.Equal(t, quotaMessage, out.shadow.Status.Message)

	faults["create pod"] = apierrors.NewBadRequest(strings.Repeat("é", 1000))
	out = state{shadow: shadow(nil), faults: faults}.reconcile(t)
	assert.LessOrEqual(t, len(out.shadow.Status.Message), maxMessage)
	out = state{shadow: out.shadow, faults: faults}.reconcile(t)
	assert.Equal(t, []string{"create pod"}, out.writes, "a truncated message is compared as it was written")
}

// The phase is written together with the removal of a refusal.
func TestExistingPodEndsRefusal(t *testing.T) {
	for name, tc := range map[string]struct{ phase, reported corev1.PodPhase }{
		"a new pod is pending":                 {corev1.PodPending, corev1.PodUnknown},
		"a new pod runs":                       {corev1.PodRunning, corev1.PodUnknown},
		"the phase is the one reported before": {corev1.PodRunning, corev1.PodRunning},
	} {
		t.Run(name, func(t *testing.T) {
			s := shadow(refusedWith(quotaMessage))
			s.Status.Phase = tc.reported
			out := state{shadow: s, pod: ownPod(s, tc.phase, 0)}.reconcile(t)
			require.NoError(t, out.err)
			assert.Equal(t, []string{"patch shadowpod status"}, out.writes)
			assert.Equal(t, offloadingv1beta1.ShadowPodStatus{Phase: tc.phase}, out.shadow.Status)
		})
	}
}

func TestRefusalMessage(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 418, Message: "denied by a webhook"}}
	cases := map[string]struct {
		err  error
		want string
	}{
		"a quota":                          {err: quotaExceeded(), want: quotaMessage},
		"a webhook's own code":             {err: denied, want: "denied by a webhook"},
		"a webhook that cannot be reached": {err: apierrors.NewInternalError(errors.New("failed calling webhook")), want: "Internal error occurred: failed calling webhook"},
		"a conflict of the quota":          {err: apierrors.NewConflict(pods, "five", errors.New("modified"))},
		"a busy API server":                {err: apierrors.NewTooManyRequests("later", 1)},
		"a timeout":                        {err: apierrors.NewTimeoutError("slow", 1)},
		"an unavailable API server":        {err: apierrors.NewServiceUnavailable("down")},
		"a connection that is refused":     {err: errors.New("connection refused")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, refusalMessage(tc.err)) })
	}
}
