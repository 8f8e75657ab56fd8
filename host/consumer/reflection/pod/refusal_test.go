package pod

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/internal/testkit/hostile"
	"github.com/longshore-dev/longshore/host/kit/podupdate"
)

func shadowRefused(s *offloadingv1beta1.ShadowPod) {
	s.Status = offloadingv1beta1.ShadowPodStatus{Phase: corev1.PodUnknown, Reason: "FailedCreatePod", Message: "exceeded quota"}
}

func TestRefusalOfTheProvider(t *testing.T) {
	const event, upToDate = "event RemotePodRefused", ", keep MetadataUpToDate"
	cases := map[string]struct {
		local  *corev1.Pod
		shadow *offloadingv1beta1.ShadowPod
		pod    *corev1.Pod
		want   string
	}{
		"a pod that has never run":                {local: localPod(), shadow: shadowPod(shadowRefused), want: "status Pending RemotePodRefused, " + event + upToDate},
		"a pod that has run":                      {local: localPod(running), shadow: shadowPod(shadowRefused), want: "status Running RemotePodRefused, " + event + upToDate},
		"a provider that reports no reason":       {local: localPod(), shadow: shadowPod(shadowPhase(corev1.PodUnknown)), want: "keep NoRemotePod" + upToDate},
		"the remote pod exists":                   {local: localPod(phase(corev1.PodPending, ReasonRefused)), shadow: shadowPod(shadowRefused), pod: remotePod(), want: "status Pending" + upToDate},
		"the ShadowPod has a terminal phase":      {local: localPod(), shadow: shadowPod(shadowRefused, shadowPhase(corev1.PodFailed)), want: "status Failed RemotePodTerminated" + upToDate},
		"the local pod is being deleted":          {local: localPod(deleting), shadow: shadowPod(shadowRefused, shadowDeleting), want: "keep NoRemotePod"},
		"the ShadowPod is that of an earlier pod": {local: localPod(), shadow: shadowPod(shadowRefused, shadowAnnotation(remote.LocalPodUIDAnnotation, "local-0")), want: "delete ShadowPod, keep StaleShadowPod"},
		"the provider deletes the ShadowPod":      {local: localPod(), shadow: shadowPod(shadowRefused, shadowDeleting), want: "keep NoRemotePod, keep ShadowPodTerminating"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := input(tc.local, tc.shadow, tc.pod)
			actions, err := decide(t.Context(), definition(&policies{}), in)
			require.NoError(t, err)
			assert.Equal(t, tc.want, summary(actions))
		})
	}
}

// A user's amounts that nothing may compute with are that pod's condition.
func TestAPodWithHostileAmountsIsNotOffloaded(t *testing.T) {
	hostileSpec := func(p *corev1.Pod) {
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: hostile.Quantities()["1e2000000000"]}
	}
	for name, tc := range map[string]struct {
		shadow *offloadingv1beta1.ShadowPod
		want   string
	}{
		"a new pod":                  {nil, "status Pending OffloadingDenied, event OffloadingDenied"},
		"a pod that runs since long": {shadowPod(shadowAnnotation(podupdate.SentAnnotation, "image/web=0")), "keep NoRemotePod, event UpdateRefused, wait RefusedChange"},
	} {
		t.Run(name, func(t *testing.T) {
			actions, err := decide(t.Context(), definition(&policies{}), input(localPod(hostileSpec), tc.shadow, nil))
			require.NoError(t, err)
			assert.Equal(t, tc.want, summary(actions))
		})
	}
	actions, err := decide(t.Context(), definition(&policies{}), input(localPod(hostileSpec), nil, nil))
	require.NoError(t, err)
	assert.Contains(t, patchedStatus(actions).Message, "Not offloaded: spec.overhead: cpu=100e1999999998: amounts can be at most")
}

func TestStatusOfRefusedPod(t *testing.T) {
	pod := localPod(running, ready, container("web", 1))
	actions, err := decide(t.Context(), definition(&policies{}), input(pod, shadowPod(shadowRefused), nil))
	require.NoError(t, err)
	status := patchedStatus(actions)
	require.NotNil(t, status)
	assert.Contains(t, status.Message, "(FailedCreatePod): exceeded quota")
	assert.Equal(t, status.Message, actions[1].(engine.RecordEvent).Message)
	assert.Equal(t, corev1.ConditionFalse, status.Conditions[0].Status)
	assert.Equal(t, ReasonRefused, status.Conditions[0].Reason)
	assert.Equal(t, now, status.Conditions[0].LastTransitionTime.Time)
	assert.False(t, status.ContainerStatuses[0].Ready)
	assert.EqualValues(t, 1, status.ContainerStatuses[0].RestartCount)

	pod.Status = *status
	actions, err = decide(t.Context(), definition(&policies{}), input(pod, shadowPod(shadowRefused), nil))
	require.NoError(t, err)
	assert.Equal(t, "keep StatusUnchanged, event RemotePodRefused, keep MetadataUpToDate", summary(actions))
}

// What a provider writes about a ShadowPod has no bound of its own.
func TestARefusalIsCut(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	shadow := shadowPod(func(s *offloadingv1beta1.ShadowPod) {
		s.Status = offloadingv1beta1.ShadowPodStatus{Phase: corev1.PodUnknown, Reason: long, Message: "exceeded quota " + long}
	})
	reported, err := decide(t.Context(), definition(&policies{}), input(localPod(), shadow, nil))
	require.NoError(t, err)
	o := observe(input(localPod(), nil, nil))
	for name, actions := range map[string][]engine.Action{"in the status": reported, "by a webhook": o.reportShadowPodRefusal(long)} {
		message := patchedStatus(actions).Message
		assert.Len(t, message, 1024, name)
		for _, action := range actions {
			if event, ok := action.(engine.RecordEvent); ok {
				assert.Equal(t, message, event.Message)
			}
		}
	}
	assert.Contains(t, patchedStatus(reported).Message, "exceeded quota")
}
