package events_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clientevents "k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/longshore-dev/longshore/host/kit/events"
)

const soon = time.Minute

// server is an API server's end of events, and the manager that records to it.
type server struct {
	broadcaster clientevents.EventBroadcaster
	mu          sync.Mutex
	created     []*eventsv1.Event
	counted     int
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.broadcaster = clientevents.NewBroadcaster(s)
	stop := make(chan struct{})
	s.broadcaster.StartRecordingToSink(stop)
	t.Cleanup(func() {
		close(stop)
		s.broadcaster.Shutdown()
	})
	return s
}

func (s *server) GetEventRecorder(component string) recorder.EventRecorder {
	return s.broadcaster.NewRecorder(scheme.Scheme, component).(recorder.EventRecorder)
}

func (s *server) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created = append(s.created, event)
	return event, nil
}

func (s *server) Update(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return event, nil
}

func (s *server) Patch(_ context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted++
	return event, nil
}

// notes returns the notes of the events, and how many events were aggregated.
func (s *server) notes() (notes []string, counted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range s.created {
		notes = append(notes, event.Note)
	}
	return notes, s.counted
}

func aPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "1"}}
}

func TestEventsWithDifferentNotesAreNotAggregated(t *testing.T) {
	s := newServer(t)
	recorder := events.New(s, "test", time.Now)
	for _, namespace := range []string{"a1", "a2"} {
		recorder.Eventf(aPod(), nil, corev1.EventTypeWarning, "MappingFailed", "MapNamespace", "namespace %q not made", namespace)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		notes, _ := s.notes()
		assert.ElementsMatch(c, []string{`namespace "a1" not made`, `namespace "a2" not made`}, notes)
	}, soon, time.Millisecond)
	for _, event := range s.created {
		assert.Equal(t, "MapNamespace", event.Action)
	}
}

func TestEventsWithEqualNotesAreAggregated(t *testing.T) {
	s := newServer(t)
	recorder := events.New(s, "test", time.Now)
	for _, version := range []string{"7", "8"} {
		pod := aPod()
		pod.ResourceVersion = version
		recorder.Eventf(pod, pod, corev1.EventTypeWarning, "MappingFailed", "MapNamespace", "100%% %s", "full")
		assert.Equal(t, version, pod.ResourceVersion, "the caller's object stays as it is")
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		notes, counted := s.notes()
		assert.Equal(c, []string{"100% full"}, notes)
		assert.Equal(c, 1, counted)
	}, soon, time.Millisecond)
}

func TestNotesAreTruncated(t *testing.T) {
	s := newServer(t)
	recorder := events.New(s, "test", time.Now)
	recorder.Eventf(aPod(), nil, corev1.EventTypeWarning, "Failed", "MapNamespace", "%s", "a"+strings.Repeat("é", 1000))
	require.Eventually(t, func() bool {
		notes, _ := s.notes()
		return len(notes) == 1
	}, soon, time.Millisecond)
	event := s.created[0]
	assert.Equal(t, "a"+strings.Repeat("é", 510)+"…", event.Note, "not cut inside a character")
	assert.Len(t, event.Note, 1024)
	assert.Equal(t, "MapNamespace", event.Action)
}

func TestCut(t *testing.T) {
	cases := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"a text that fits":              {text: "éé", limit: 4, want: "éé"},
		"a text that is too long":       {text: "ééé", limit: 5, want: "é…"},
		"a limit inside of a character": {text: "aéé", limit: 4, want: "a…"},
		"no room beside the ellipsis":   {text: "éé", limit: 3, want: "…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, events.Cut(tc.text, tc.limit)) })
	}
}
