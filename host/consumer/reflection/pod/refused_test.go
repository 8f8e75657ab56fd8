package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

func shadowRefused(s *offloadingv1beta1.ShadowPod) {
	s.Status = offloadingv1beta1.ShadowPodStatus{Phase: corev1.PodUnknown, Reason: "FailedCreatePod", Message: "exceeded quota"}
}

func TestWhatTheProviderRefusesIsToldToTheOwner(t *testing.T) {
	const told = "tell RemotePodRefused"
	cases := map[string]struct {
		local  *corev1.Pod
		shadow *offloadingv1beta1.ShadowPod
		pod    *corev1.Pod
		want   string
	}{
		"a pod that waits":                          {local: localPod(), shadow: shadowPod(shadowRefused), want: "status Pending RemotePodRefused, " + told},
		"a pod that ran, and is to be made again":   {local: localPod(phase(corev1.PodRunning)), shadow: shadowPod(shadowRefused), want: "status Running RemotePodRefused, " + told},
		"a provider that says nothing":              {local: localPod(), shadow: shadowPod(shadowPhase(corev1.PodUnknown)), want: ""},
		"there is a pod":                            {local: localPod(phase(corev1.PodPending, ReasonRefused)), shadow: shadowPod(shadowRefused), pod: remotePod(), want: "status Pending"},
		"the ShadowPod has ended all the same":      {local: localPod(), shadow: shadowPod(shadowRefused, shadowPhase(corev1.PodFailed)), want: "status Failed RemotePodTerminated"},
		"the local pod is being deleted":            {local: localPod(deleting), shadow: shadowPod(shadowRefused, shadowDeleting), want: ""},
		"the ShadowPod is that of an earlier pod":   {local: localPod(), shadow: shadowPod(shadowRefused, shadowAnnotation(remote.LocalPodUIDAnnotation, "local-0")), want: "delete remote"},
		"somebody deletes the ShadowPod over there": {local: localPod(), shadow: shadowPod(shadowRefused, shadowDeleting), want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := input(tc.local, tc.shadow, tc.pod)
			in.Memory = memory{local: tc.local.UID, remoteUID: "remote-1"}
			actions, err := decide(t.Context(), definition(&policies{}), in)
			require.NoError(t, err)
			assert.Equal(t, tc.want, summary(actions))
		})
	}
}

func TestARefusedPodIsNotReadyAndSaysWhy(t *testing.T) {
	here := localPod(phase(corev1.PodRunning), ready, container("web", 1))
	actions, err := decide(t.Context(), definition(&policies{}), input(here, shadowPod(shadowRefused), nil))
	require.NoError(t, err)
	patch, ok := actions[0].(engine.PatchLocalStatus)
	require.True(t, ok)
	status := patch.New.(*corev1.PodStatus)
	assert.Equal(t, "Cluster milan cannot make the pod (FailedCreatePod): exceeded quota", status.Message)
	assert.Equal(t, status.Message, actions[1].(engine.RecordEvent).Message)
	assert.Equal(t, corev1.ConditionFalse, status.Conditions[0].Status)
	assert.Equal(t, ReasonRefused, status.Conditions[0].Reason)
	assert.Equal(t, now, status.Conditions[0].LastTransitionTime.Time)
	assert.Equal(t, here.Status.ContainerStatuses, status.ContainerStatuses)

	here.Status = *status
	actions, err = decide(t.Context(), definition(&policies{}), input(here, shadowPod(shadowRefused), nil))
	require.NoError(t, err)
	assert.Equal(t, "tell RemotePodRefused", summary(actions), "no second write; the engine tells once")
}
