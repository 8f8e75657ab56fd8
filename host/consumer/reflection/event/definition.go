// Package event is Pod flow, stage 7: the definitions with which the reflection engine copies
// events about remote pods, claims, Services, Ingresses and ShadowEndpointSlices to the consumer (wire
// 4.10), so that `kubectl describe` shows why an offloaded pod does not start, or why its volume, its
// load balancer or its endpoints are missing.
package event

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// maxStepAge is the same for a step of a pod that starts.
	maxStepAge = 2 * time.Minute
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
	// Limits are those of the provider. nil for limits of this definition only.
	Limits *Limits
}

// Definition copies events.
type Definition struct {
	options  Options
	name     string
	subjects []subject
	// isOfObjects is set for warnings about objects that do not belong to one virtual node.
	isOfObjects bool
}

var _ engine.Definition = (*Definition)(nil)

// New returns the definition of events about the pods of the virtual node.
func New(options Options) *Definition {
	if options.Interval == 0 {
		options.Interval = defaultInterval
	}
	if options.Limits == nil {
		options.Limits = NewLimits()
	}
	return &Definition{options: options, name: "event", subjects: []subject{podOf(options.Origin.NodeName)}}
}

// steps are the reasons of what happens to a pod that starts as it should.
var steps = []string{"Scheduled", "Pulling", "Pulled", "Created", "Started"}

// isStep reports whether an event is a step of a pod that starts. Each is copied once, after all other events. Its status
// has the result, so that steps are left out while there is much to copy.
func isStep(event *corev1.Event) bool {
	return event.Type == corev1.EventTypeNormal && event.InvolvedObject.Kind == podKind && slices.Contains(steps, event.Reason)
}

// NewForObjects returns the definition of warnings about other objects than pods. resources are the
// names of the reflected resources; those about which no controller of a provider records warnings
// are ignored. It returns nil if none is left.
func NewForObjects(options Options, resources ...string) *Definition {
	d := New(options)
	d.name, d.isOfObjects, d.subjects = "objectevent", true, nil
	for _, of := range objects {
		if slices.Contains(resources, of.resource) {
			d.subjects = append(d.subjects, of)
		}
	}
	if len(d.subjects) == 0 {
		return nil
	}
	return d
}

// Resource implements engine.Definition. Local events are not watched: they are written
// again only when the remote event changes, and expire.
func (d *Definition) Resource() engine.Resource {
	kind := engine.Kind{
		New:     func() client.Object { return &corev1.Event{} },
		NewList: func() client.ObjectList { return &corev1.EventList{} },
	}
	remoteKind := kind
	remoteKind.Trim, remoteKind.TrimName, remoteKind.Encoded = cut, "event", true
	remoteKind.IsBackground = func(object client.Object) bool {
		event, ok := object.(*corev1.Event)
		return ok && isStep(event)
	}
	resource := engine.Resource{
		Name: d.name, Local: kind, Remote: remoteKind, LocalUnwatched: true,
		RemoteUnmanaged: true, LeaderOnly: d.isOfObjects, After: "pod",
		Policy: d.options.Policy, Workers: max(d.options.Workers, 1),
	}
	for i := range d.subjects {
		resource.Related = append(resource.Related, d.subjects[i].local)
	}
	return resource
}

// find returns the local object that a remote event is about, with its kind, or nil.
func (d *Definition) find(in engine.Input, event *corev1.Event) (client.Object, schema.GroupVersionKind) {
	if d.isOfObjects && event.Type != corev1.EventTypeWarning {
		return nil, schema.GroupVersionKind{}
	}
	about := &event.InvolvedObject
	for i := range d.subjects {
		if d.subjects[i].isAbout(about) {
			return in.Related[i](about.Name), d.subjects[i].kind
		}
	}
	return nil, schema.GroupVersionKind{}
}

// written is the memory of a local event.
type written struct {
	at, last time.Time
	count    int32
}

// whyCurrent returns why an event that was copied is not copied again, "" if it is.
func (w written) whyCurrent(event *corev1.Event, next written) string {
	switch {
	case isStep(event):
		return "the step was copied"
	case w.count == next.count && w.last.Equal(next.last):
		return "the event is up to date"
	default:
		return ""
	}
}

// whyPast returns why an event is not copied, "" if it is.
func whyPast(event *corev1.Event, next written, object client.Object) string {
	oldest := maxAge
	if isStep(event) {
		oldest = maxStepAge
	}
	switch {
	case next.at.Sub(next.last) > oldest:
		return "the event is old"
	case next.last.Add(clockSkew).Before(object.GetCreationTimestamp().Time):
		return "the event is about an earlier object of the name"
	default:
		return ""
	}
}

// Decide implements engine.Definition.
func (d *Definition) Decide(in engine.Input) ([]engine.Action, error) {
	event, isEvent := in.Remote.(*corev1.Event)
	switch {
	case !isEvent:
		return keep("the remote event has expired, and the local one will"), nil
	case in.Skipped:
		return keep("the remote event is skipped"), nil
	}
	object, kind := d.find(in, event)
	if object == nil {
		return keep("the object is not one that this virtual node reflects"), nil
	}
	before, hasWritten := in.Memory.(written)
	next := written{at: in.Facts.Now, last: local.EventTime(event), count: local.EventCount(event)}
	var reason string
	if hasWritten {
		reason = before.whyCurrent(event, next)
	} else {
		reason = whyPast(event, next, object)
	}
	if reason != "" {
		return keep(reason), nil
	}
	if left := before.at.Add(d.options.Interval).Sub(in.Facts.Now); hasWritten && left > 0 {
		return []engine.Action{engine.Requeue{After: min(left, d.options.Interval), Reason: "the event was written a moment ago"}}, nil
	}
	labels := map[string]string{
		offloadingv1beta1.OriginLabel:      in.Facts.HomeClusterID,
		offloadingv1beta1.DestinationLabel: in.Facts.ProviderClusterID,
	}
	return []engine.Action{engine.Query{Run: func(context.Context) ([]engine.Action, error) {
		switch {
		case d.options.Limits.take(object.GetUID(), isStep(event), in.Facts.Now):
		case isStep(event):
			return keep("there is much to copy"), nil
		default:
			return []engine.Action{engine.Requeue{After: d.options.Interval, Reason: "the provider reports too many events"}}, nil
		}
		return []engine.Action{engine.ApplyLocal{Config: local.Event(event, kind, object, labels, in.Facts.Now)}, engine.Remember{Value: next}}, nil
	}}}, nil
}

func keep(reason string) []engine.Action { return []engine.Action{engine.Keep{Reason: reason}} }
