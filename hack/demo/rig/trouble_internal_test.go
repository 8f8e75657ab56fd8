package rig

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/longshore-dev/longshore/host/app/scheme/fakeclient"
)

func TestTrouble(t *testing.T) {
	unscheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2 nodes are available"}
	unready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}
	waiting := corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}}
	ended := corev1.ContainerStatus{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}}
	fine := corev1.ContainerStatus{Name: "init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"no node for it":          {corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{unscheduled}}, "Unschedulable: 0/2 nodes are available"},
		"no node, so not ready":   {corev1.PodStatus{Conditions: []corev1.PodCondition{unready, unscheduled}}, "Unschedulable: 0/2 nodes are available"},
		"a container waits":       {corev1.PodStatus{Conditions: []corev1.PodCondition{unready}, InitContainerStatuses: []corev1.ContainerStatus{fine}, ContainerStatuses: []corev1.ContainerStatus{waiting}}, "container web waits: ErrImagePull: no such image"},
		"an init container":       {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{ended}, ContainerStatuses: []corev1.ContainerStatus{waiting}}, "container init ended with 3: Error"},
		"not ready":               {corev1.PodStatus{Conditions: []corev1.PodCondition{unready}}, "ContainersNotReady"},
		"refused":                 {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OffloadingBackOff", Message: "refused", Conditions: []corev1.PodCondition{unready}}, "OffloadingBackOff: refused"},
		"a status without reason": {corev1.PodStatus{Phase: corev1.PodPending}, "phase Pending"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Status: tc.status}
		assert.Equal(t, "pod web-1: "+tc.want, trouble(pod), name)
	}
}

func TestPodsThatDoNotComeUpAreNamed(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID("uid-" + name)}
	}
	ready := &corev1.Pod{ObjectMeta: meta("cart"), Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	pending := &corev1.Pod{ObjectMeta: meta("web"), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	event := func(name, kind, about, severity, message string, second int64) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: meta(name), Type: severity, Reason: "Reason", Message: message, LastTimestamp: metav1.Unix(second, 0),
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: about, UID: types.UID("uid-" + about)},
		}
	}
	c := &Cluster{Name: "rome", Client: fakeclient.Builder(ready, pending,
		event("a", "Pod", "web", corev1.EventTypeWarning, "the last word", 9),
		event("b", "Pod", "web", corev1.EventTypeWarning, "an earlier word", 8),
		event("c", "ReplicaSet", "catalog-1", corev1.EventTypeWarning, "admission denied", 7),
		event("d", "ReplicaSet", "catalog-1", corev1.EventTypeNormal, "all is fine", 9),
	).Build()}
	given := errors.New("not done after a minute")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(given) // Its time is over from the start: it asks once.
	var reported string
	err := c.WaitForPods(ctx, "shop", 4, func(progress string) { reported = progress })
	require.ErrorIs(t, err, given)
	assert.ErrorContains(t, err, `waiting for the pods of namespace "shop" in cluster "rome": 1 of 4 pods ready:
  pod web: phase Pending; last event: Reason: the last word
  2 more do not exist; last warning: ReplicaSet catalog-1: Reason: admission denied
`)
	assert.Equal(t, "1 of 4 pods ready; pod web: phase Pending", reported)
	require.NoError(t, c.Delete(t.Context(), pending))
	require.NoError(t, c.WaitForPods(ctx, "shop", 1, func(string) {}))
}
