package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/consumer/reflection/engine"
)

// largest is the most bytes of a local event, which is a multiple of what an API server lets clients
// of events.k8s.io write.
const largest = 4096

// hostile is a provider that has any number of different events about the pods of a virtual node.
type hostile struct {
	now    time.Time
	memory map[string]any
}

// sends returns how many of the events with some numbers, each about a pod, are written in the
// consumer now.
func (h *hostile) sends(t *testing.T, d engine.Definition, about func(event int) (kind, name string), from, to int) (written int) {
	t.Helper()
	long := strings.Repeat("é", 1<<16)
	for n := from; n < to; n++ {
		kind, name := about(n)
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(kind + name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		}}
		event := happened(1, 0)
		event.LastTimestamp = metav1.NewTime(h.now)
		event.Name, event.InvolvedObject.Kind, event.InvolvedObject.Name = fmt.Sprintf("%s.%d", name, n), kind, name
		event.Type, event.Reason, event.Message = corev1.EventTypeWarning, long, long
		event.InvolvedObject.FieldPath, event.Source.Component, event.Source.Host = event.Message, event.Message, event.Message
		event.ReportingController = event.Message
		if trim := d.Resource().Remote.Trim; trim != nil {
			trim(event)
		}
		in := input(event, nil, h.memory[event.Name])
		in.Facts.Now, in.Related = h.now, nil
		for range d.Resource().Related {
			in.Related = append(in.Related, func(string) client.Object { return object })
		}
		for _, action := range decide(t, d, in) {
			switch a := action.(type) {
			case engine.ApplyLocal:
				written++
				body, err := json.Marshal(a.Config)
				require.NoError(t, err)
				require.LessOrEqual(t, len(body), largest)
				require.True(t, utf8.Valid(body))
			case engine.Remember:
				h.memory[event.Name] = a.Value
			}
		}
	}
	return written
}

// A provider cannot fill the etcd of the consumer with events: neither with many about one object, nor
// with some about each of many, nor with large ones, nor with ones that it repeats.
func TestEventsOfAHostileProviderAreBounded(t *testing.T) {
	options := definition().options
	options.Limits = NewLimits()
	pods, objects := New(options), NewForObjects(options, "service")
	h := &hostile{now: now, memory: map[string]any{}}
	aPod := func(int) (string, string) { return "Pod", "web" }
	eachPod := func(n int) (string, string) { return "Pod", fmt.Sprintf("web-%d", n) }
	aService := func(int) (string, string) { return "Service", "web" }

	assert.Equal(t, subjectBurst, h.sends(t, pods, aPod, 0, 1_000), "events about one pod")
	h.now = now.Add(time.Minute)
	assert.Equal(t, int(time.Minute/subjectInterval), h.sends(t, pods, aPod, 0, 1_000), "a minute later, repeated or not")
	assert.Equal(t, subjectBurst, h.sends(t, objects, aService, 0, 1_000), "other objects have events too")

	first := h.sends(t, pods, eachPod, 0, 2_000)
	assert.LessOrEqual(t, first, providerBurst)
	assert.Zero(t, h.sends(t, objects, aService, 1_000, 2_000), "the limit of the provider holds for all kinds")
	total := first
	for range 60 {
		h.now = h.now.Add(time.Minute)
		total += h.sends(t, pods, eachPod, total, total+500)
	}
	perHour := providerBurst + int(time.Hour/providerInterval)
	assert.LessOrEqual(t, total, perHour, "as many as the API server keeps: it removes events after an hour")
	assert.Less(t, perHour*largest, 100<<20)
}

// What a provider reports a moment after too many events is not lost.
func TestAnEventOverTheLimitIsCopiedLater(t *testing.T) {
	d := New(Options{Limits: NewLimits()})
	h := &hostile{now: now, memory: map[string]any{}}
	aPod := func(int) (string, string) { return "Pod", "web" }
	h.sends(t, d, aPod, 0, subjectBurst)
	in := input(happened(1, 0), podCreated(time.Hour), nil)
	in.Related[0]("web").SetUID("Podweb")
	actions := decide(t, d, in)
	require.Len(t, actions, 1)
	in.Facts.Now = now.Add(actions[0].(engine.Requeue).After)
	assert.IsType(t, engine.ApplyLocal{}, decide(t, d, in)[0])
}

// An event with a date that no API server takes is copied without it, and is not tried for ever.
func TestDatesOfAHostileProviderAreBounded(t *testing.T) {
	hostileTime := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, at := range map[string]time.Time{"after the year 9999": hostileTime, "before the year 0": hostileTime.AddDate(-10500, 0, 0)} {
		for field, set := range map[string]func(*corev1.Event){
			"first": func(e *corev1.Event) { e.FirstTimestamp = metav1.NewTime(at) },
			"last":  func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(at) },
			"event": func(e *corev1.Event) { e.FirstTimestamp, e.EventTime = metav1.Time{}, metav1.NewMicroTime(at) },
			"series": func(e *corev1.Event) {
				e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(at)}
			},
			"creation": func(e *corev1.Event) { e.LastTimestamp, e.CreationTimestamp = metav1.Time{}, metav1.NewTime(at) },
		} {
			t.Run(field+", "+name, func(t *testing.T) {
				d, event := definition(), happened(1, 0)
				event.FirstTimestamp, event.CreationTimestamp = event.LastTimestamp, event.LastTimestamp
				set(event)
				d.Resource().Remote.Trim(event)
				action := decide(t, d, input(event, podCreated(time.Hour), nil))[0]
				if field == "creation" {
					assert.IsType(t, engine.Keep{}, action, "no date is an old one")
					return
				}
				require.IsType(t, engine.ApplyLocal{}, action)
				body, err := json.Marshal(action.(engine.ApplyLocal).Config)
				require.NoError(t, err)
				local := &corev1.Event{}
				require.NoError(t, json.Unmarshal(body, local))
				assert.Equal(t, now, local.LastTimestamp.UTC(), "%s", body)
			})
		}
	}
}
