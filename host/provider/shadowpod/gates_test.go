package shadowpod

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

func TestConditionsOfReadinessGatesReachThePod(t *testing.T) {
	const gate = "example.com/registered"
	condition := func(name string, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodConditionType(name), Status: status}
	}
	const patched = "patch pod status"
	for name, tc := range map[string]struct {
		sent, have []corev1.PodCondition
		fault      error
		want       []corev1.PodCondition
		writes     []string
		event      string
	}{
		"a condition that the pod does not have": {
			sent: []corev1.PodCondition{condition(gate, "True")}, have: []corev1.PodCondition{condition("Ready", "False")},
			want: []corev1.PodCondition{condition("Ready", "False"), condition(gate, "True")}, writes: []string{patched},
		},
		"a condition with another status": {
			sent: []corev1.PodCondition{condition(gate, "False")}, have: []corev1.PodCondition{condition(gate, "True")},
			want: []corev1.PodCondition{condition(gate, "False")}, writes: []string{patched},
		},
		"a condition that the pod has": {
			sent: []corev1.PodCondition{condition(gate, "True")}, have: []corev1.PodCondition{condition(gate, "True")},
			want: []corev1.PodCondition{condition(gate, "True")},
		},
		"a condition that no gate of the pod names": {sent: []corev1.PodCondition{condition("example.com/other", "True")}},
		"a condition that the kubelet writes":       {sent: []corev1.PodCondition{condition("Ready", "True")}},
		"a refusal": {
			sent: []corev1.PodCondition{condition(gate, "True")}, fault: apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("quiet hours")),
			writes: []string{patched}, event: "Readiness gates not written",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := shadow(func(s *offloadingv1beta1.ShadowPod) {
				s.Spec.Pod.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}, {ConditionType: corev1.PodReady}}
				s.Annotations[podupdate.GatesAnnotation] = podupdate.EncodeGates(tc.sent)
			})
			pod := ownPod(s, corev1.PodRunning, 0)
			pod.Status.Conditions = tc.have
			assert.NotContains(t, pod.Annotations, podupdate.GatesAnnotation, "the status has it")
			out := state{shadow: s, pod: pod, faults: map[string]error{patched: tc.fault}}.reconcile(t)
			require.NoError(t, out.err)
			assert.Equal(t, tc.writes, out.writes)
			assert.ElementsMatch(t, tc.want, out.pod.Status.Conditions)
			if tc.event != "" {
				require.NotEmpty(t, out.events)
				assert.Contains(t, out.events[0], tc.event)
				assert.Positive(t, out.result.RequeueAfter)
			}
		})
	}
}
