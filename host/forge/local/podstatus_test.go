package local_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/longshore-dev/longshore/host/forge/local"
)

var (
	earlier = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	now     = time.Date(2026, 11, 21, 7, 0, 0, 500, time.UTC)
	nowSec  = metav1.NewTime(time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC))
)

func remotePod() *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "10.9.0.1", HostIPs: []corev1.HostIP{{IP: "10.9.0.1"}},
		PodIP: "10.0.0.5", PodIPs: []corev1.PodIP{{IP: "10.0.0.5"}, {IP: "fd00::5"}},
		QOSClass: corev1.PodQOSBurstable, NominatedNodeName: "milan-node", Message: "m", Reason: "r",
		Conditions:                 []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses:          []corev1.ContainerStatus{{Name: "web", RestartCount: 1, Ready: true}},
		InitContainerStatuses:      []corev1.ContainerStatus{{Name: "init", RestartCount: 1}},
		EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "debug", RestartCount: 1}},
	}}
}

func TestPodStatusIsTheRemoteOneWithLocalAddresses(t *testing.T) {
	remote := remotePod()
	before := remote.DeepCopy()
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web"}}, InitContainers: []corev1.Container{{Name: "init"}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}},
	}}
	status := local.PodStatus(local.PodStatusInput{
		Local: pod, Remote: remote, NodeIP: "127.0.0.9", ExtraRestarts: 2, Now: now,
		MapIP: func(ip string) string { return ip + "0" },
	})
	want := before.Status.DeepCopy()
	want.HostIP, want.HostIPs = "127.0.0.9", []corev1.HostIP{{IP: "127.0.0.9"}}
	want.PodIP = "10.0.0.50"
	want.PodIPs = []corev1.PodIP{{IP: "10.0.0.50"}, {IP: "fd00::50"}}
	want.ContainerStatuses[0].RestartCount = 3
	assert.Equal(t, want, status)
	assert.Equal(t, before, remote, "the remote pod is shared")
}

func TestAddressesThatAreNotKnownAreLeftOut(t *testing.T) {
	known := map[string]string{"fd00::5": "fd00::5"}
	status := func() *corev1.PodStatus {
		return local.PodStatus(local.PodStatusInput{Local: &corev1.Pod{}, Remote: remotePod(), MapIP: func(ip string) string { return known[ip] }})
	}
	assert.Equal(t, "fd00::5", status().PodIP)
	assert.Equal(t, []corev1.PodIP{{IP: "fd00::5"}}, status().PodIPs)
	known = nil
	assert.Empty(t, status().PodIP)
	assert.Nil(t, status().PodIPs)
}

func TestPodAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		ip      string
		ips     []corev1.PodIP
		disable bool
		wantIP  string
		wantIPs []corev1.PodIP
	}{
		"none yet":                          {"", nil, false, "", nil},
		"one, from an old provider":         {"10.0.0.5", nil, false, "10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}}},
		"two (T19)":                         {"10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}, {IP: "fd00::5"}}, false, "10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}, {IP: "fd00::5"}}},
		"left out when so configured":       {"10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}}, true, "", nil},
		"a loopback address":                {"127.0.0.1", []corev1.PodIP{{IP: "127.0.0.1"}}, false, "", nil},
		"loopback in IPv6":                  {"::ffff:127.0.0.1", []corev1.PodIP{{IP: "::ffff:127.0.0.1"}, {IP: "::1"}}, false, "", nil},
		"a link-local address":              {"169.254.169.254", nil, false, "", nil},
		"link-local in IPv6":                {"fe80::1", []corev1.PodIP{{IP: "fe80::1"}, {IP: "10.0.0.5"}}, false, "10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}}},
		"no address at all":                 {"0.0.0.0", []corev1.PodIP{{IP: "0.0.0.0"}, {IP: "::"}}, false, "", nil},
		"a multicast address":               {"224.0.0.1", []corev1.PodIP{{IP: "224.0.0.1"}, {IP: "ff02::1"}}, false, "", nil},
		"a text":                            {"pod.example.com", nil, false, "", nil},
		"an IPv4 address in IPv6":           {"::ffff:10.0.0.5", []corev1.PodIP{{IP: "::ffff:10.0.0.5"}, {IP: "fd00::5"}}, false, "10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}, {IP: "fd00::5"}}},
		"one, mapped, from an old provider": {"::ffff:10.0.0.5", nil, false, "10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}}},
		"two of IPv4":                       {"10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}, {IP: "10.0.0.6"}}, false, "10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}}},
		"two of IPv6":                       {"fd00::5", []corev1.PodIP{{IP: "fd00::5"}, {IP: "fd00::6"}, {IP: "10.0.0.5"}}, false, "fd00::5", []corev1.PodIP{{IP: "fd00::5"}, {IP: "10.0.0.5"}}},
		"two of IPv4, one in IPv6":          {"10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}, {IP: "::ffff:10.0.0.6"}}, false, "10.0.0.5", []corev1.PodIP{{IP: "10.0.0.5"}}},
		"not in canonical form":             {"fd00:0::05", []corev1.PodIP{{IP: "FD00:0::05"}}, false, "fd00::5", []corev1.PodIP{{IP: "fd00::5"}}},
	} {
		t.Run(name, func(t *testing.T) {
			remote := &corev1.Pod{Status: corev1.PodStatus{PodIP: tc.ip, PodIPs: tc.ips}}
			status := local.PodStatus(local.PodStatusInput{Local: &corev1.Pod{}, Remote: remote, DisableIPReflection: tc.disable, Now: now})
			assert.Equal(t, tc.wantIP, status.PodIP)
			assert.Equal(t, tc.wantIPs, status.PodIPs)
		})
	}
}

func TestReadyWhileTheProviderIsUnavailable(t *testing.T) {
	unavailable := map[string]string{"liqo.io/remote-unavailable": "true"}
	forced := func(at metav1.Time) []corev1.PodCondition {
		return []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: local.RemoteUnavailableReason,
			Message: "The cluster that runs the pod is not reachable", LastTransitionTime: at,
		}}
	}
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	unready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}}
	for name, tc := range map[string]struct {
		labels            map[string]string
		had, remote, want []corev1.PodCondition
	}{
		"available: as it is there":                       {nil, nil, ready, ready},
		"unavailable: forced":                             {unavailable, ready, ready, forced(nowSec)},
		"unavailable: added when absent":                  {unavailable, nil, nil, forced(nowSec)},
		"unavailable for long: the time stays":            {unavailable, forced(metav1.NewTime(earlier)), ready, forced(metav1.NewTime(earlier))},
		"a remote pod that is not ready keeps its reason": {unavailable, ready, unready, unready},
		"any other value is none":                         {map[string]string{"liqo.io/remote-unavailable": "false"}, nil, ready, ready},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}, Status: corev1.PodStatus{Conditions: tc.had}}
			remote := &corev1.Pod{Status: corev1.PodStatus{Conditions: tc.remote}}
			status := local.PodStatus(local.PodStatusInput{Local: pod, Remote: remote, Now: now})
			assert.Equal(t, tc.want, status.Conditions)
		})
	}
}

func TestRejectedPodStatus(t *testing.T) {
	running := func() *corev1.PodStatus {
		return &corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(earlier)},
				{Type: corev1.PodInitialized, Status: corev1.ConditionUnknown, Reason: "kept", LastTransitionTime: metav1.NewTime(earlier)},
			},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 0, Reason: "Completed"},
			}}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "web", Ready: true, ContainerID: "id",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(earlier)}},
			}},
		}
	}
	for name, tc := range map[string]struct {
		phase corev1.PodPhase
		want  *corev1.ContainerStateTerminated
	}{
		"failed: the container failed": {corev1.PodFailed, &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: "Why", StartedAt: metav1.NewTime(earlier), FinishedAt: nowSec, ContainerID: "id",
		}},
		"succeeded: the container succeeded": {corev1.PodSucceeded, &corev1.ContainerStateTerminated{
			ExitCode: 0, Reason: "Why", StartedAt: metav1.NewTime(earlier), FinishedAt: nowSec, ContainerID: "id",
		}},
		"pending: the container is left alone": {corev1.PodPending, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := running()
			status := local.RejectedPodStatus(before, tc.phase, "Why", "because", now)
			assert.Equal(t, running(), before, "the argument is shared")
			assert.Equal(t, tc.phase, status.Phase)
			assert.Equal(t, "Why", status.Reason)
			assert.Equal(t, "because", status.Message)
			assert.Equal(t, []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "Why", LastTransitionTime: nowSec},
				before.Conditions[1],
			}, status.Conditions)
			assert.False(t, status.ContainerStatuses[0].Ready)
			assert.Equal(t, tc.want, status.ContainerStatuses[0].State.Terminated)
			assert.Equal(t, before.InitContainerStatuses[0].State, status.InitContainerStatuses[0].State, "what ended has ended")
			again := local.RejectedPodStatus(status, tc.phase, "Why", "because", now.Add(time.Hour))
			assert.Equal(t, status, again, "a second time changes nothing")
		})
	}
}

// A provider's observedGeneration is about its own pod.
func TestGenerationsAreThoseOfTheLocalPod(t *testing.T) {
	for name, tc := range map[string]struct {
		current                     bool
		observed, ofCondition, want int64
		wantOfCondition             int64
	}{
		"the provider has observed the current spec":      {true, 7, 7, 3, 3},
		"a condition is older":                            {true, 7, 6, 3, 1},
		"the provider has observed an older spec":         {true, 6, 6, 2, 1},
		"the change has not reached the remote pod":       {false, 7, 7, 2, 1},
		"a provider without generations":                  {true, 0, 0, 2, 1},
		"a provider that reports conditions without them": {true, 7, 0, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			pod, remote := &corev1.Pod{}, &corev1.Pod{}
			pod.Generation, remote.Generation = 3, 7
			pod.Status.ObservedGeneration, remote.Status.ObservedGeneration = 2, tc.observed
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, ObservedGeneration: 1}}
			remote.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodReady, ObservedGeneration: tc.ofCondition}, {Type: "New", ObservedGeneration: 6},
			}
			status := local.PodStatus(local.PodStatusInput{Local: pod, Remote: remote, Now: now, HasCurrentSpec: tc.current})
			assert.Equal(t, tc.want, status.ObservedGeneration)
			assert.Equal(t, tc.wantOfCondition, status.Conditions[0].ObservedGeneration)
			assert.Zero(t, status.Conditions[1].ObservedGeneration, "no generation of the local pod is known")
		})
	}
}

func TestConditionsOfTheConsumerStay(t *testing.T) {
	condition := func(name corev1.PodConditionType, status corev1.ConditionStatus, generation int64) corev1.PodCondition {
		return corev1.PodCondition{Type: name, Status: status, ObservedGeneration: generation}
	}
	pod, remote := &corev1.Pod{}, &corev1.Pod{}
	pod.Status.Conditions = []corev1.PodCondition{condition("own", "False", 4), condition("new", "True", 0), condition("theirs", "False", 0)}
	remote.Status.Conditions = []corev1.PodCondition{condition("removed", "True", 0), condition("own", "True", 9), condition("theirs", "True", 0)}
	gates := []corev1.PodCondition{condition("new", "True", 0), condition("own", "False", 4), condition("removed", "False", 0)}
	status := local.PodStatus(local.PodStatusInput{Local: pod, Remote: remote, Now: now, LocalGates: gates})
	assert.Equal(t, []corev1.PodCondition{condition("own", "False", 4), condition("theirs", "True", 0), condition("new", "True", 0)}, status.Conditions)
}

func TestAPodThatWaitsKeepsConditionsOfOtherControllers(t *testing.T) {
	current := &corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "example.com/a", Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for phase, want := range map[corev1.PodPhase]corev1.ConditionStatus{corev1.PodPending: corev1.ConditionTrue, corev1.PodFailed: corev1.ConditionFalse} {
		status := local.RejectedPodStatus(current, phase, "Denied", "m", now)
		assert.Equal(t, want, status.Conditions[0].Status, phase)
		assert.Equal(t, corev1.ConditionFalse, status.Conditions[1].Status, phase)
	}
}
