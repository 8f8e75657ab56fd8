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

// trouble says in a line what a pod that is not ready waits for: the reason nearest to
// its cause that its status gives.
func trouble(pod *corev1.Pod) string {
	reason := said(pod.Status.Reason, pod.Status.Message)
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
			return said(condition.Reason, condition.Message)
		}
	}
	return ""
}

func containerTrouble(status *corev1.ContainerStatus) string {
	switch {
	case status.State.Waiting != nil:
		return "container " + status.Name + " waits: " + said(status.State.Waiting.Reason, status.State.Waiting.Message)
	case status.State.Terminated != nil && status.State.Terminated.ExitCode != 0:
		ended := status.State.Terminated
		return fmt.Sprintf("container %s ended with %d: %s", status.Name, ended.ExitCode, said(ended.Reason, ended.Message))
	}
	return ""
}

// said joins a reason and a message, either of which may be missing.
func said(reason, message string) string {
	return strings.Trim(reason+": "+message, ": ")
}

// explain says of every pod what stands against it, with its last event. Of pods that do
// not even exist, the warnings about others in the namespace may tell.
func (c *Cluster) explain(ctx context.Context, namespace string, unready []*corev1.Pod, missing int) string {
	// The time of who waited is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainPatience)
	defer cancel()
	events := &corev1.EventList{}
	err := c.List(ctx, events, client.InNamespace(namespace))
	slices.SortStableFunc(events.Items, func(a, b corev1.Event) int { return eventTime(&a).Compare(eventTime(&b)) })
	var lines []string
	for _, pod := range unready {
		line := trouble(pod)
		if last := lastEvent(events.Items, func(e *corev1.Event) bool { return e.InvolvedObject.UID == pod.UID }); last != nil {
			line += "; last event: " + said(last.Reason, last.Message)
		}
		lines = append(lines, line)
	}
	if missing > 0 {
		line := fmt.Sprintf("%d more do not even exist", missing)
		last := lastEvent(events.Items, func(e *corev1.Event) bool {
			return e.Type == corev1.EventTypeWarning && e.InvolvedObject.Kind != "Pod"
		})
		if last != nil {
			line += fmt.Sprintf("; last warning: %s %s: %s", last.InvolvedObject.Kind, last.InvolvedObject.Name, said(last.Reason, last.Message))
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

// eventTime is when an event was seen last; which field says so depends on its author.
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
