package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// explainPatience bounds the questions asked when something has failed already.
const explainPatience = 5 * time.Second

// trouble describes in one line why a pod is not ready: the reason in its status that is
// nearest to the cause.
func trouble(pod *corev1.Pod) string {
	reason := joinReason(pod.Status.Reason, pod.Status.Message)
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range statuses {
		if reason == "" {
			reason = containerTrouble(&statuses[i])
		}
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady} {
		if reason == "" {
			reason = conditionTrouble(pod, kind)
		}
	}
	if reason == "" {
		reason = "phase " + string(pod.Status.Phase)
	}
	return "pod " + pod.Name + ": " + reason
}

func conditionTrouble(pod *corev1.Pod, kind corev1.PodConditionType) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind && condition.Status != corev1.ConditionTrue {
			return joinReason(condition.Reason, condition.Message)
		}
	}
	return ""
}

func containerTrouble(status *corev1.ContainerStatus) string {
	switch {
	case status.State.Waiting != nil:
		return "container " + status.Name + " waits: " + joinReason(status.State.Waiting.Reason, status.State.Waiting.Message)
	case status.State.Terminated != nil && status.State.Terminated.ExitCode != 0:
		ended := status.State.Terminated
		return fmt.Sprintf("container %s ended with %d: %s", status.Name, ended.ExitCode, joinReason(ended.Reason, ended.Message))
	}
	return ""
}

// joinReason joins a reason and a message, either of which may be missing.
func joinReason(reason, message string) string {
	return strings.Trim(reason+": "+message, ": ")
}

// explain describes every pod that is not ready, with its last event, and for missing pods
// the last warning about another object of the namespace.
func (c *Cluster) explain(ctx context.Context, namespace string, unready []*corev1.Pod, missing int) string {
	// The context of the wait has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainPatience)
	defer cancel()
	events := &corev1.EventList{}
	err := c.List(ctx, events, client.InNamespace(namespace))
	slices.SortStableFunc(events.Items, func(a, b corev1.Event) int { return eventTime(&a).Compare(eventTime(&b)) })
	var lines []string
	for _, pod := range unready {
		line := trouble(pod)
		if last := lastEvent(events.Items, func(e *corev1.Event) bool { return e.InvolvedObject.UID == pod.UID }); last != nil {
			line += "; last event: " + joinReason(last.Reason, last.Message)
		}
		lines = append(lines, line)
	}
	if missing > 0 {
		line := fmt.Sprintf("%d more do not exist", missing)
		last := lastEvent(events.Items, func(e *corev1.Event) bool {
			return e.Type == corev1.EventTypeWarning && e.InvolvedObject.Kind != "Pod"
		})
		if last != nil {
			line += fmt.Sprintf("; last warning: %s %s: %s", last.InvolvedObject.Kind, last.InvolvedObject.Name, joinReason(last.Reason, last.Message))
		}
		lines = append(lines, line)
	}
	if err != nil {
		lines = append(lines, fmt.Sprintf("the events cannot be read: %v", err))
	}
	return "\n  " + strings.Join(lines, "\n  ")
}

// lastEvent of those that are in order of time.
func lastEvent(events []corev1.Event, about func(*corev1.Event) bool) *corev1.Event {
	for i := len(events) - 1; i >= 0; i-- {
		if about(&events[i]) {
			return &events[i]
		}
	}
	return nil
}

// eventTime is when an event was seen last; the field depends on the recorder.
func eventTime(event *corev1.Event) time.Time {
	at := event.CreationTimestamp.Time
	for _, other := range []time.Time{event.EventTime.Time, event.LastTimestamp.Time} {
		if other.After(at) {
			at = other
		}
	}
	if event.Series != nil && event.Series.LastObservedTime.After(at) {
		at = event.Series.LastObservedTime.Time
	}
	return at
}
