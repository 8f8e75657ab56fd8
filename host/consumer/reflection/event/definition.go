// Package event is Pod flow, stage 7: the definition with which the reflection engine copies
// events about remote pods to the consumer (wire 4.10), so that `kubectl describe` shows why
// an offloaded pod does not start.
package event

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/forge/remote"
)

const (
	// maxAge is the age from which an event is not copied any more. It bounds the requests
	// after a restart.
	maxAge = 10 * time.Minute
	// defaultInterval is the default of Options.Interval.
	defaultInterval = 30 * time.Second
	// clockSkew is tolerated between the clocks of the two clusters.
	clockSkew = time.Minute
)

// Options configure the definition.
type Options struct {
	Origin remote.Origin
	// Policy is DenyList or AllowList (--event-reflection-type). It applies to remote events.
	Policy offloadingv1beta1.ReflectionType
	// Workers is the number of events handled at once (--event-reflection-workers).
	Workers int
	// Interval is the least time between two writes of the same event, 30 seconds by default.
	// A provider counts the events of a crashing container every few seconds.
	Interval time.Duration
}

// Definition copies events.
type Definition struct{ options Options }

var _ engine.Definition = (*Definition)(nil)

// New returns the definition.
func New(options Options) *Definition {
	if options.Interval == 0 {
		options.Interval = defaultInterval
	}
	return &Definition{options: options}
}

// Resource implements engine.Definition. Local events are not watched: they are written
// again only when the remote event changes, and expire.
func (d *Definition) Resource() engine.Resource {
	kind := engine.Kind{
		New:     func() client.Object { return &corev1.Event{} },
		NewList: func() client.ObjectList { return &corev1.EventList{} },
	}
	return engine.Resource{
		Name: "event", Local: kind, Remote: kind, LocalUnwatched: true,
		RemoteUnmanaged: true, RemoteFields: fields.OneTermEqualSelector("involvedObject.kind", "Pod"),
		// The pods of this virtual node, from the informer of their own definition.
		Related: []engine.Related{{
			Kind: engine.Kind{
				New:     func() client.Object { return &corev1.Pod{} },
				NewList: func() client.ObjectList { return &corev1.PodList{} },
			},
			Fields: fields.OneTermEqualSelector("spec.nodeName", d.options.Origin.NodeName),
		}},
		Policy: d.options.Policy, Workers: max(d.options.Workers, 1),
	}
}

// isProgress reports whether an event records a step of a pod that starts as it should. The
// status of the local pod has that, and five requests for each pod are saved.
func isProgress(event *corev1.Event) bool {
	if event.Type != corev1.EventTypeNormal {
		return false
	}
	switch event.Reason {
	case "Scheduled", "Pulling", "Pulled", "Created", "Started":
		return true
	default:
		return false
	}
}

// written is the memory of a local event.
type written struct {
	at, last time.Time
	count    int32
}

// Decide implements engine.Definition.
func (d *Definition) Decide(in engine.Input) ([]engine.Action, error) {
	event, isEvent := in.Remote.(*corev1.Event)
	switch {
	case !isEvent:
		return keep("the remote event has expired, and the local one will"), nil
	case in.Skipped:
		return keep("the remote event is skipped"), nil
	case isProgress(event):
		return keep("the status of the pod shows the step"), nil
	}
	pod, isPod := in.Related[0](event.InvolvedObject.Name).(*corev1.Pod)
	if !isPod {
		return keep("the pod is not on this virtual node"), nil
	}
	before, hasWritten := in.Memory.(written)
	next := written{at: in.Facts.Now, last: local.EventTime(event), count: local.EventCount(event)}
	switch {
	case !hasWritten && in.Facts.Now.Sub(next.last) > maxAge:
		return keep("the event is old"), nil
	case !hasWritten && next.last.Add(clockSkew).Before(pod.CreationTimestamp.Time):
		return keep("the event is about an earlier pod of the name"), nil
	case hasWritten && before.count == next.count && before.last.Equal(next.last):
		return keep("the event is up to date"), nil
	}
	if left := before.at.Add(d.options.Interval).Sub(in.Facts.Now); hasWritten && left > 0 {
		return []engine.Action{engine.Requeue{After: min(left, d.options.Interval), Reason: "the event was written a moment ago"}}, nil
	}
	labels := map[string]string{
		offloadingv1beta1.OriginLabel:      in.Facts.HomeClusterID,
		offloadingv1beta1.DestinationLabel: in.Facts.ProviderClusterID,
	}
	return []engine.Action{engine.ApplyLocal{Config: local.Event(event, pod, labels)}, engine.Remember{Value: next}}, nil
}

func keep(reason string) []engine.Action { return []engine.Action{engine.Keep{Reason: reason}} }
