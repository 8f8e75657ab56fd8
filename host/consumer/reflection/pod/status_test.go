package pod

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

// The local pod does not become ready while the state of the remote pod is unknown: what was
// read before an outage of the link may be stale.
func TestReadinessIsNotRaisedOnStaleData(t *testing.T) {
	notReady := func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "NodeNotReady"})
	}
	const unavailable, yes, no = "status Running RemoteUnavailable", "status Running Ready", ""
	for name, tc := range map[string]struct {
		local   *corev1.Pod
		remote  *corev1.Pod
		unknown bool
		want    string
		refresh bool
	}{
		"known, the local pod is not ready":       {localPod(running, notReady), remotePod(running, ready), false, yes, false},
		"unknown, the local pod is not ready":     {localPod(running, notReady), remotePod(running, ready), true, unavailable, true},
		"unknown, the local pod has no condition": {localPod(running), remotePod(running, ready), true, unavailable, true},
		"unknown, the local pod is ready":         {localPod(running, ready), remotePod(running, ready), true, no, false},
		"unknown, the remote pod is not ready":    {localPod(running, notReady), remotePod(running, notReady), true, no, false},
		"unknown, and marked unavailable":         {localPod(running, notReady, label(offloadingv1beta1.RemoteUnavailableLabel, "true")), remotePod(running, ready), true, unavailable, false},
		"known, but marked unavailable":           {localPod(running, notReady, label(offloadingv1beta1.RemoteUnavailableLabel, "true")), remotePod(running, ready), false, unavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(tc.local, shadowPod(), tc.remote)
			in.Facts.RemoteUnknown = tc.unknown
			tc.local.Status.HostIP, tc.local.Status.HostIPs = in.Facts.NodeIP, []corev1.HostIP{{IP: in.Facts.NodeIP}}
			actions, err := decide(t.Context(), definition(&policies{}), in)
			require.NoError(t, err)
			got, refresh := "", false
			for _, action := range actions {
				switch a := action.(type) {
				case engine.PatchLocalStatus:
					condition := a.New.(*corev1.PodStatus).Conditions[0]
					got = "status Running " + condition.Reason
					if condition.Status == corev1.ConditionTrue {
						got = yes
					}
				case engine.RefreshRemote:
					refresh = true
				}
			}
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.refresh, refresh)
		})
	}
}

func TestReportedEndOfTerminatingPodIsMirrored(t *testing.T) {
	ended := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3}
	}
	shadow := shadowPod(func(s *offloadingv1beta1.ShadowPod) { s.Status.Phase = corev1.PodFailed })
	in := input(localPod(running, container("web", 0)), shadow, remotePod(phase(corev1.PodFailed), deleting, container("web", 0), ended))
	actions, err := decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	status := patchedStatus(actions)
	require.NotNil(t, status)
	assert.Equal(t, corev1.PodFailed, status.Phase)
	assert.EqualValues(t, 3, status.ContainerStatuses[0].State.Terminated.ExitCode)
}

func TestCountRestarts(t *testing.T) {
	tests := map[string]struct {
		memory memory
		local  *corev1.Pod
		remote *corev1.Pod
		want   int32
	}{
		"a first remote pod":                     {local: localPod(), remote: remotePod(container("web", 2)), want: 0},
		"the same remote pod":                    {memory: memory{remoteUID: "remote-1", restarts: 4}, local: localPod(), remote: remotePod(), want: 4},
		"the next remote pod":                    {memory: memory{remoteUID: "remote-0", restarts: 4}, local: localPod(), remote: remotePod(), want: 5},
		"the number is the largest":              {memory: memory{remoteUID: "remote-0", restarts: math.MaxInt32}, local: localPod(), remote: remotePod(), want: math.MaxInt32},
		"after a restart, a negative number":     {local: localPod(container("web", 7)), remote: remotePod(container("web", math.MinInt32)), want: 7},
		"after a restart of the virtual kubelet": {local: localPod(container("web", 7)), remote: remotePod(container("web", 5)), want: 2},
		"after a restart, never negative":        {local: localPod(container("web", 1)), remote: remotePod(container("web", 5)), want: 0},
		"after a restart, nothing has begun":     {local: localPod(container("web", 7)), remote: remotePod(), want: 7},
		"after a restart, another container":     {local: localPod(container("web", 7)), remote: remotePod(container("db", 5)), want: 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, countRestarts(tc.memory, tc.local, tc.remote))
		})
	}
}

func TestRestartsAreAddedToTheStatus(t *testing.T) {
	in := input(localPod(), shadowPod(), remotePod(phase(corev1.PodRunning), container("web", 2)))
	in.Memory = memory{localUID: "local-1", remoteUID: "remote-0", restarts: 1}
	actions, err := decide(t.Context(), definition(&policies{}), in)
	require.NoError(t, err)
	status := patchedStatus(actions)
	require.NotNil(t, status)
	assert.EqualValues(t, 4, status.ContainerStatuses[0].RestartCount)
	assert.Equal(t, "10.9.9.9", status.HostIP)
}

func TestLocalFieldsAreRestored(t *testing.T) {
	here, there := localPod(), remotePod(phase(corev1.PodRunning))
	here.Status.QOSClass, there.Status.QOSClass = corev1.PodQOSBurstable, corev1.PodQOSGuaranteed
	there.Status.NominatedNodeName = "worker-1"
	there.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu"}}
	actions, err := decide(t.Context(), definition(&policies{}), input(here, shadowPod(), there))
	require.NoError(t, err)
	status := patchedStatus(actions)
	require.NotNil(t, status)
	assert.Equal(t, corev1.PodQOSBurstable, status.QOSClass, "the API server refuses another")
	assert.Empty(t, status.NominatedNodeName, "the API server refuses one for a bound pod")
	assert.Empty(t, status.ResourceClaimStatuses)
}

func TestEvictedRemotePodDoesNotEndTheLocalPod(t *testing.T) {
	local := localPod(running, ready, container("web", 0))
	remote := remotePod(phase(corev1.PodFailed), deleting, container("web", 0), func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, FinishedAt: metav1.NewTime(now)}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodFailed"}}
	})
	actions, err := decide(t.Context(), definition(&policies{}), input(local, shadowPod(), remote))
	require.NoError(t, err)
	status := patchedStatus(actions)
	require.NotNil(t, status)
	assert.Equal(t, corev1.PodRunning, status.Phase, "a terminal phase is final")
	assert.Equal(t, corev1.ConditionFalse, status.Conditions[0].Status, "Services must not route to the pod")
	assert.False(t, status.ContainerStatuses[0].Ready)
	assert.Nil(t, status.ContainerStatuses[0].State.Terminated, "the end of a container is final when it may not restart")
}

// A pod of which nothing runs in the provider is not shown as running and ready.
func TestAPodWithoutRemotePodIsNotReady(t *testing.T) {
	const upToDate = ", keep MetadataUpToDate"
	serves := func() *corev1.Pod { return localPod(running, ready, container("web", 2)) }
	ending := func(in *engine.Input) { in.Facts.IsEnding = true }
	for name, tc := range map[string]struct {
		local     *corev1.Pod
		shadow    *offloadingv1beta1.ShadowPod
		remote    *corev1.Pod
		alter     func(*engine.Input)
		want      string
		wantReady bool
	}{
		"the provider creates another":                      {local: serves(), shadow: shadowPod(), want: "status Running" + upToDate},
		"it was created at once":                            {local: localPod(), shadow: shadowPod(), want: "keep NoRemotePod" + upToDate},
		"remote pods were read before an outage":            {local: serves(), shadow: shadowPod(), alter: func(in *engine.Input) { in.Facts.RemoteUnknown = true }, want: "keep NoRemotePod" + upToDate, wantReady: true},
		"the remote pod may have lost its labels":           {local: serves(), shadow: shadowPod(), alter: func(in *engine.Input) { in.IsDependentLost = true }, want: "keep NoRemotePod" + upToDate, wantReady: true},
		"the namespace ends, the ShadowPod exists":          {local: serves(), shadow: shadowPod(shadowDeleting), alter: ending, want: "status Running RemoteNamespaceTerminating, event RemoteNamespaceTerminating, keep ShadowPodTerminating"},
		"the namespace ends, nothing is left":               {local: serves(), alter: ending, want: "status Running RemoteNamespaceTerminating, event RemoteNamespaceTerminating"},
		"the namespace ends before the pod began":           {local: localPod(), alter: ending, want: "status Pending RemoteNamespaceTerminating, event RemoteNamespaceTerminating"},
		"the namespace ends, and the remote pod still runs": {local: serves(), remote: remotePod(running, ready, container("web", 2)), alter: ending, want: "status Running", wantReady: true},
		"the namespace ends, and the remote pod too":        {local: serves(), remote: remotePod(running, ready, deleting, container("web", 2)), alter: ending, want: "status Running"},
		"the remote pod is deleted, and its containers run": {local: serves(), shadow: shadowPod(), remote: remotePod(running, ready, deleting, container("web", 2)), want: "status Running" + upToDate},
		"both are deleted, and its containers run":          {local: localPod(running, ready, deleting, container("web", 2)), shadow: shadowPod(shadowDeleting), remote: remotePod(running, ready, deleting, container("web", 2)), want: "status Running", wantReady: true},
		"the namespace ends, and the pod has finished":      {local: localPod(phase(corev1.PodSucceeded)), alter: ending, want: "keep PodFinished"},
		"the namespace ends, and the pod is deleted":        {local: localPod(running, ready, deleting), alter: ending, want: "status Failed, delete local pod"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(tc.local, tc.shadow, tc.remote)
			if tc.alter != nil {
				tc.alter(&in)
			}
			actions, err := decide(t.Context(), definition(&policies{}), in)
			require.NoError(t, err)
			assert.Equal(t, tc.want, summary(actions))
			if status := patchedStatus(actions); status != nil && len(status.ContainerStatuses) > 0 {
				assert.Equal(t, tc.wantReady, status.ContainerStatuses[0].Ready)
				assert.Equal(t, tc.wantReady, status.Conditions[0].Status == corev1.ConditionTrue)
			}
		})
	}
}

// A sidecar is not ready without its pod. An init container that completed stays so.
func TestInitContainersOfAPodThatIsNotReady(t *testing.T) {
	pod := localPod(running, ready)
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "migrate", Ready: true, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
		{Name: "proxy", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
	actions, err := decide(t.Context(), definition(&policies{}), input(pod, shadowPod(), nil))
	require.NoError(t, err)
	status := patchedStatus(actions)
	require.NotNil(t, status)
	assert.True(t, status.InitContainerStatuses[0].Ready)
	assert.False(t, status.InitContainerStatuses[1].Ready)
}

// The last message of a remote pod stays after the pod is gone.
func TestLastMessageStays(t *testing.T) {
	message := func(text string) podOption { return func(p *corev1.Pod) { p.Status.Message = text } }
	for name, tc := range map[string]struct {
		local *corev1.Pod
		want  string
		phase corev1.PodPhase
	}{
		"a pod that has succeeded and is being deleted": {localPod(phase(corev1.PodSucceeded, "Done"), message("42 rows"), deleting), "42 rows", corev1.PodSucceeded},
		"a pod that is being deleted":                   {localPod(running, message("42 rows"), deleting), "42 rows", corev1.PodSucceeded},
		"a pod that ran":                                {localPod(running, message("42 rows")), "42 rows", corev1.PodSucceeded},
		"a pod that was refused before":                 {localPod(phase(corev1.PodPending, ReasonRefused), message("no quota")), "", corev1.PodSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			actions, err := decide(t.Context(), definition(&policies{}), input(tc.local, shadowPod(shadowPhase(corev1.PodSucceeded), shadowDeleting), nil))
			require.NoError(t, err)
			status := &tc.local.Status
			if patched := patchedStatus(actions); patched != nil {
				status = patched
			}
			assert.Equal(t, tc.want, status.Message)
			assert.Equal(t, tc.phase, status.Phase)
		})
	}
}

// While a remote pod is replaced, the local status has times of the provider's conditions.
func TestDatesOfAReplacedPodAreBounded(t *testing.T) {
	local, pod := localPod(running, ready), remotePod(phase(corev1.PodFailed), deleting, ready)
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
	actions, err := decide(t.Context(), definition(&policies{}), input(local, shadowPod(), pod))
	require.NoError(t, err)
	text, err := json.Marshal(patchedStatus(actions))
	require.NoError(t, err)
	assert.NoError(t, json.Unmarshal(text, &corev1.PodStatus{}), "%s", text)
	assert.Equal(t, corev1.ConditionFalse, patchedStatus(actions).Conditions[0].Status)
}

// A remote pod that is being deleted is not ready since its deletion, however its provider counts.
func TestALeavingPodIsNotReadySinceItsDeletion(t *testing.T) {
	for name, tc := range map[string]struct {
		grace *int64
		want  time.Time
	}{
		"a grace period":      {ptr.To[int64](30), now.Add(-30 * time.Second)},
		"none":                {nil, now},
		"more than a time is": {ptr.To[int64](math.MaxInt64), time.Time{}},
		"a negative one":      {ptr.To[int64](math.MinInt64), now},
	} {
		t.Run(name, func(t *testing.T) {
			remote := remotePod(running, ready, deleting)
			remote.DeletionTimestamp, remote.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(now)), tc.grace
			actions, err := decide(t.Context(), definition(&policies{}), input(localPod(running, ready), shadowPod(), remote))
			require.NoError(t, err)
			status := patchedStatus(actions)
			require.NotNil(t, status)
			assert.Equal(t, corev1.ConditionFalse, status.Conditions[0].Status)
			assert.Equal(t, ReasonReplaced, status.Conditions[0].Reason)
			assert.Equal(t, tc.want.UTC(), status.Conditions[0].LastTransitionTime.UTC())
			again, err := decide(t.Context(), definition(&policies{}), input(localPod(func(p *corev1.Pod) { p.Status = *status }), shadowPod(), remote))
			require.NoError(t, err)
			assert.Nil(t, patchedStatus(again), "it is written once")
		})
	}
}

// A provider that deletes the remote pod again and again is named in an event.
func TestAReplacedRemotePodIsAnEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		known types.UID
		want  string
	}{
		"the first remote pod": {"", "status Running, keep MetadataUpToDate"},
		"the same remote pod":  {"remote-1", "status Running, keep MetadataUpToDate"},
		"another remote pod":   {"remote-0", "event RemotePodReplaced, status Running, keep MetadataUpToDate"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(localPod(), shadowPod(), remotePod(phase(corev1.PodRunning)))
			in.Memory = memory{localUID: "local-1", remoteUID: tc.known}
			actions, err := decide(t.Context(), definition(&policies{}), in)
			require.NoError(t, err)
			assert.Equal(t, tc.want, summary(actions))
		})
	}
}
