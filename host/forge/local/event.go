package local

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/longshore-dev/longshore/host/kit/apitime"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
)

// remoteComponent is added to the component of a remote event.
const remoteComponent = " (remote)"

// Event builds the local event about an object from a remote event about its remote object (wire
// 4.10). The two objects have one kind and name. It sets the fields of core/v1 events, also for
// events of the newer form. Texts are plain, and times not in the future: the provider chooses both.
func Event(event *corev1.Event, kind schema.GroupVersionKind, object metav1.Object, labels map[string]string, now time.Time) *applycorev1.EventApplyConfiguration {
	component := event.Source.Component
	if component == "" {
		component = event.ReportingController
	}
	first := event.FirstTimestamp
	if first.IsZero() {
		first = metav1.NewTime(event.EventTime.Time)
	}
	source := applycorev1.EventSource().WithComponent(plaintext.Line(component) + remoteComponent)
	if event.Source.Host != "" {
		source.WithHost(plaintext.Line(event.Source.Host))
	}
	involved := applycorev1.ObjectReference().WithAPIVersion(kind.GroupVersion().String()).WithKind(kind.Kind).
		WithNamespace(object.GetNamespace()).WithName(object.GetName()).WithUID(object.GetUID())
	if event.InvolvedObject.FieldPath != "" {
		involved.WithFieldPath(plaintext.Line(event.InvolvedObject.FieldPath))
	}
	return applycorev1.Event(event.Name, object.GetNamespace()).WithLabels(labels).
		WithInvolvedObject(involved).WithSource(source).
		WithType(event.Type).WithReason(plaintext.Line(event.Reason)).WithMessage(plaintext.Line(event.Message)).
		WithFirstTimestamp(until(first.Time, now)).WithLastTimestamp(until(EventTime(event), now)).WithCount(EventCount(event))
}

// until returns a time, or now if it is later.
func until(at, now time.Time) metav1.Time {
	if at.After(now) {
		at = now
	}
	return apitime.Bound(metav1.NewTime(at))
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

// maxCount is more than an object has of one event within the hour for which it is kept.
const maxCount = 100_000

// EventCount returns how often an event happened, within bounds.
func EventCount(event *corev1.Event) int32 {
	count := event.Count
	if event.Series != nil {
		count = event.Series.Count
	}
	return min(max(count, 1), maxCount)
}
