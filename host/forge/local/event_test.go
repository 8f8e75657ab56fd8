package local

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEvent(t *testing.T) {
	first, last := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC), time.Date(2026, 5, 1, 10, 5, 0, 0, time.UTC)
	remote := metav1.ObjectMeta{Namespace: "shop-rome", Name: "web.1", Labels: map[string]string{"dropped": "x"}}
	about := corev1.ObjectReference{Kind: "Pod", Namespace: "shop-rome", Name: "web", UID: "remote", FieldPath: "spec.containers{web}"}
	tests := map[string]*corev1.Event{
		"an event of core/v1": {
			ObjectMeta: remote, InvolvedObject: about, Type: "Warning", Reason: "BackOff", Message: "m",
			Source: corev1.EventSource{Component: "kubelet", Host: "worker"}, Count: 3,
			FirstTimestamp: metav1.NewTime(first), LastTimestamp: metav1.NewTime(last),
		},
		"an event of events.k8s.io": {
			ObjectMeta: remote, InvolvedObject: about, Type: "Warning", Reason: "BackOff", Message: "m",
			Source: corev1.EventSource{Host: "worker"}, ReportingController: "kubelet", EventTime: metav1.NewMicroTime(first),
			Series: &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(last)},
		},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "local"}}
	for name, event := range tests {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(Event(event, corev1.SchemeGroupVersion.WithKind("Pod"), pod, map[string]string{"owned": "yes"}, last))
			require.NoError(t, err)
			assert.JSONEq(t, `{"apiVersion":"v1","kind":"Event","metadata":{"name":"web.1","namespace":"shop","labels":{"owned":"yes"}},
				"involvedObject":{"apiVersion":"v1","kind":"Pod","namespace":"shop","name":"web","uid":"local","fieldPath":"spec.containers{web}"},
				"type":"Warning","reason":"BackOff","message":"m","count":3,"source":{"component":"kubelet (remote)","host":"worker"},
				"firstTimestamp":"2026-05-01T10:00:00Z","lastTimestamp":"2026-05-01T10:05:00Z"}`, string(body))
		})
	}
}

func TestTheTimeAndTheCountOfAnEventDefault(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC))
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at}}
	assert.Equal(t, at.Time, EventTime(event))
	assert.EqualValues(t, 1, EventCount(event))
}

func TestAnEventOfAProviderIsPlainAndHasHappened(t *testing.T) {
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	later := metav1.NewTime(time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC))
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "web.1"}, InvolvedObject: corev1.ObjectReference{FieldPath: "spec\n"}, Type: "Warning",
		Reason: "Back\u202EOff", Message: "a\nb\x1b[2J", Source: corev1.EventSource{Component: "kube\nlet", Host: "work\ner"},
		Count: math.MaxInt32, FirstTimestamp: later, LastTimestamp: later,
	}
	got := Event(event, corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{}, nil, now)
	assert.Equal(t, "Back Off", *got.Reason)
	assert.Equal(t, "a b [2J", *got.Message)
	assert.Equal(t, "kube let (remote)", *got.Source.Component)
	assert.Equal(t, "work er", *got.Source.Host)
	assert.Equal(t, "spec ", *got.InvolvedObject.FieldPath)
	assert.Equal(t, now, got.FirstTimestamp.Time)
	assert.Equal(t, now, got.LastTimestamp.Time)
	assert.EqualValues(t, maxCount, *got.Count)
	event.Series = &corev1.EventSeries{Count: math.MaxInt32, LastObservedTime: metav1.NewMicroTime(later.Time)}
	assert.EqualValues(t, maxCount, EventCount(event))
	assert.Equal(t, now, Event(event, corev1.SchemeGroupVersion.WithKind("Pod"), &corev1.Pod{}, nil, now).LastTimestamp.Time)
}
