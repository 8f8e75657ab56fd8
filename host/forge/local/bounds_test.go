package local_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/internal/testkit/hostile"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

// reporting returns a pod status that reports an amount of CPU, and one of another resource, wherever a
// status has amounts.
func reporting(amount resource.Quantity) corev1.PodStatus {
	list := func() corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: amount, "example.com/gpu": amount}
	}
	both := func() *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Requests: list(), Limits: list()}
	}
	container := func(name string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: name, Resources: both(), AllocatedResources: list()}, {Name: "injected", Resources: both(), AllocatedResources: list()}}
	}
	return corev1.PodStatus{
		Phase: corev1.PodRunning, Resources: both(), AllocatedResources: list(),
		ContainerStatuses: container("web"), InitContainerStatuses: container("init"), EphemeralContainerStatuses: container("debug"),
	}
}

// sums are the amounts of CPU in a status.
func sums(status *corev1.PodStatus) map[string]bool {
	amounts := map[string]bool{}
	data, _ := json.Marshal(status)
	for part := range strings.SplitSeq(string(data), `"cpu":"`) {
		if amount, _, ok := strings.Cut(part, `"`); ok && !strings.HasPrefix(part, "{") {
			amounts[amount] = true
		}
	}
	return amounts
}

// The consumer's scheduler and its quota controller count what the status of a pod reports.
func TestAStatusReportsNoMoreThanTheLocalPodHas(t *testing.T) {
	pod := func(amount string) *corev1.Pod {
		resources := corev1.ResourceRequirements{Requests: cpu(amount), Limits: cpu(amount)}
		return &corev1.Pod{Spec: corev1.PodSpec{
			Resources:  &resources,
			Containers: []corev1.Container{{Name: "web", Resources: resources}}, InitContainers: []corev1.Container{{Name: "init", Resources: resources}},
		}}
	}
	reports := func(amount resource.Quantity, current bool, before string) *corev1.PodStatus {
		in := local.PodStatusInput{Local: pod("2"), Remote: &corev1.Pod{Status: reporting(amount)}, Now: now, HasCurrentSpec: current}
		if before != "" {
			in.Local.Status = reporting(resource.MustParse(before))
		}
		status := local.PodStatus(in)
		assert.NotContains(t, fmt.Sprint(status), "gpu")
		require.NoError(t, quantity.CheckAll(status))
		return status
	}
	for text, amount := range hostile.Quantities() {
		for _, current := range []bool{true, false} {
			for _, before := range []string{"", text} {
				if !current || before == "" {
					assert.Equal(t, map[string]bool{"2": true}, sums(reports(amount, current, before)), "%.30s", text)
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		reported, before string
		current          bool
		want             string
	}{
		"as the spec has it":                               {"2", "", true, "2"},
		"less":                                             {"500m", "", true, "500m"},
		"more than the spec":                               {"1000", "", true, "2"},
		"more, and it was reported before":                 {"1000", "1000", true, "2"},
		"what it had before, while it is resized":          {"4", "4", false, "4"},
		"more than it had before, while it is resized":     {"1000", "4", false, "4"},
		"more than the spec, and it had less":              {"4", "1", false, "2"},
		"more than the spec, and nothing was reported yet": {"4", "", false, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, map[string]bool{tc.want: true}, sums(reports(resource.MustParse(tc.reported), tc.current, tc.before)))
		})
	}
	status := local.PodStatus(local.PodStatusInput{Local: &corev1.Pod{}, Remote: &corev1.Pod{Status: reporting(resource.MustParse("1"))}, Now: now})
	assert.Empty(t, sums(status), "a pod without requests has none")
	assert.Nil(t, status.Resources)
}

// A status is one that the API server accepts, whatever the provider reports.
func TestAHostileStatusIsBounded(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	future := metav1.NewTime(time.Date(292277026596, 1, 1, 0, 0, 0, 0, time.UTC))
	remote := &corev1.Pod{Status: corev1.PodStatus{
		Phase: "Exploded", Reason: long, Message: long, StartTime: &future, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "10.0.0.1"}, {IP: "10.0.0.2"}, {IP: "fd00::1"}, {IP: "fd00::2"}},
		Conditions: []corev1.PodCondition{
			{Type: "Ready", Status: "maybe", LastTransitionTime: future, Message: "\xff" + long}, {Type: "Ready", Status: "True"}, {Type: "not a name", Status: "True"},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", RestartCount: math.MaxInt32, User: &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: -1}},
			State:        corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC))}},
			VolumeMounts: []corev1.VolumeMountStatus{{Name: "v", VolumeStatus: &corev1.VolumeStatus{Image: &corev1.ImageVolumeStatus{}}}},
			AllocatedResourcesStatus: []corev1.ResourceStatus{
				{Name: "example.com/gpu", Resources: []corev1.ResourceHealth{{ResourceID: "a", Health: "Healthy"}}},
				{Name: "example.com/gpu", Resources: []corev1.ResourceHealth{{ResourceID: "b", Health: "Healthy"}}},
				{Name: "cpu", Resources: []corev1.ResourceHealth{{ResourceID: "a", Health: "fine"}}},
				{Name: "memory", Resources: []corev1.ResourceHealth{{ResourceID: "a", Health: "Healthy"}, {ResourceID: "a", Health: "Healthy"}}},
				{Name: "example.com/other", Resources: []corev1.ResourceHealth{{ResourceID: "a", Health: "Healthy", Message: ptr.To("")}}},
			},
		}, {Name: "other", RestartCount: -7}},
		InitContainerStatuses: make([]corev1.ContainerStatus, 100_000),
		VolumeHealth:          []corev1.PodVolumeHealth{{Name: "unknown"}},
	}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		"cpu": resource.MustParse("1"), "memory": resource.MustParse("1"), "example.com/gpu": resource.MustParse("1"),
	}}}, {Name: "other"}}}}
	status := local.PodStatus(local.PodStatusInput{Local: pod, Remote: remote, ExtraRestarts: 7, Now: now})
	assert.Equal(t, corev1.PodUnknown, status.Phase)
	assert.Len(t, status.Reason, 4096)
	assert.True(t, status.StartTime.IsZero())
	assert.Equal(t, []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}, status.PodIPs)
	require.Len(t, status.Conditions, 1)
	assert.Equal(t, corev1.ConditionUnknown, status.Conditions[0].Status)
	web := status.ContainerStatuses[0]
	assert.EqualValues(t, math.MaxInt32, web.RestartCount)
	assert.EqualValues(t, 7, status.ContainerStatuses[1].RestartCount)
	assert.Len(t, status.ContainerStatuses, 2)
	assert.Nil(t, web.User)
	assert.Nil(t, web.VolumeMounts[0].VolumeStatus)
	assert.Nil(t, status.VolumeHealth)
	require.Len(t, web.AllocatedResourcesStatus, 1)
	assert.Len(t, web.AllocatedResourcesStatus[0].Resources, 1)
	assert.Empty(t, status.InitContainerStatuses)
	data, err := json.Marshal(status)
	require.NoError(t, err)
	assert.Less(t, len(data), 64<<10)
	require.NoError(t, json.Unmarshal(data, &corev1.PodStatus{}), "times of the API")
}

// Texts of a status are shown by kubectl and longshorectl, line by line.
func TestTextsOfAStatusArePlain(t *testing.T) {
	const text, plain = "a\u202Eb\nc\x1b[2J", "a b c [2J"
	pod := podOf(0)
	pod.Spec.Containers = []corev1.Container{{Name: "web"}}
	end := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: text, Message: text, ExitCode: 1}}
	reported := corev1.PodStatus{
		Phase: corev1.PodRunning, Reason: text, Message: text,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", Image: text, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: text, Message: text}}, LastTerminationState: end,
		}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: text, Message: text}},
	}
	status := local.PodStatus(local.PodStatusInput{Local: pod, Remote: &corev1.Pod{Status: reported}, Now: now})
	container := status.ContainerStatuses[0]
	last := container.LastTerminationState.Terminated
	for _, got := range []string{
		status.Reason, status.Message, status.Conditions[0].Reason, status.Conditions[0].Message, container.Image, container.State.Waiting.Reason,
		container.State.Waiting.Message, last.Reason,
	} {
		assert.Equal(t, plain, got)
	}
	assert.Equal(t, "a b\nc [2J", last.Message, "a container may write several lines")
	assert.Equal(t, plain, local.RejectedPodStatus(&corev1.PodStatus{}, corev1.PodPending, "RemotePodRefused", text, now).Message)
}
