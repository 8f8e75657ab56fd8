package local

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

// remoteComponent is added to the component of a remote event.
const remoteComponent = " (remote)"

// Event builds the local event about an object from a remote event about its remote object (wire
// 4.10). The two objects have one kind and name. It sets the fields of core/v1 events, also for
// events of the newer form.
func Event(event *corev1.Event, kind schema.GroupVersionKind, object metav1.Object, labels map[string]string) *applycorev1.EventApplyConfiguration {
	component := event.Source.Component
	if component == "" {
		component = event.ReportingController
	}
	first := event.FirstTimestamp
	if first.IsZero() {
		first = metav1.NewTime(event.EventTime.Time)
	}
	source := applycorev1.EventSource().WithComponent(component + remoteComponent)
	if event.Source.Host != "" {
		source.WithHost(event.Source.Host)
	}
	involved := applycorev1.ObjectReference().WithAPIVersion(kind.GroupVersion().String()).WithKind(kind.Kind).
		WithNamespace(object.GetNamespace()).WithName(object.GetName()).WithUID(object.GetUID())
	if event.InvolvedObject.FieldPath != "" {
		involved.WithFieldPath(event.InvolvedObject.FieldPath)
	}
	return applycorev1.Event(event.Name, object.GetNamespace()).WithLabels(labels).
		WithInvolvedObject(involved).WithSource(source).
		WithType(event.Type).WithReason(event.Reason).WithMessage(event.Message).
		WithFirstTimestamp(first).WithLastTimestamp(metav1.NewTime(EventTime(event))).WithCount(EventCount(event))
}

// EventTime returns when an event happened last.
func EventTime(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil && !event.Series.LastObservedTime.IsZero():
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	default:
		return event.CreationTimestamp.Time
	}
}

// EventCount returns how often an event happened.
func EventCount(event *corev1.Event) int32 {
	if event.Series != nil {
		return max(event.Series.Count, 1)
	}
	return max(event.Count, 1)
}
