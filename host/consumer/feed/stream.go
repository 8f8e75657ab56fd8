package feed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/longshore-dev/longshore/host/kit/feed"
)

const (
	// recentEvents and recentTime bound the events that are kept for watches which begin at an earlier
	// resource version: a watch follows its list within moments, and that of each namespace continues after
	// the end of a stream. One that finds its events gone lists all objects. With 256, some of 500 namespaces
	// did so each time, in a burst of 200 events a second.
	recentEvents = 4096
	recentTime   = 10 * time.Second
	// buffered is how many events wait for one subscriber. sendTimeout bounds how long one that does
	// not read them holds up the others, before its watch ends.
	buffered    = 32
	sendTimeout = 5 * time.Second
)

var (
	errNotCovered = errors.New("the feed does not have the namespace")
	errEnded      = errors.New("the watch of the feed has ended")
)

// stream is one watch of the feed and its subscribers.
type stream struct {
	streams *Streams
	key     streamKey
	// isInitial is true if the watch has initial events.
	isInitial bool
	users     int // guarded by the mutex of streams
	// isHeld is true while the stream is kept for its initial events; guarded by the mutex of streams.
	isHeld bool
	ctx    context.Context
	cancel context.CancelFunc

	open sync.Once
	err  error // set by open
	// start is the resource version after which recent has all events.
	start string
	// template is a bookmark, and position the resource version of the last event. Both belong to the
	// goroutine of run.
	template runtime.Object
	position string

	mu sync.Mutex
	// covered has the resource version from which on the stream has the events of a namespace.
	covered map[string]string
	// changed is closed when covered changes, and when the stream ends.
	changed  chan struct{}
	hasEnded bool
	// isFilling is true during the initial events. They are those of the announced namespaces.
	isFilling bool
	announced []string
	// initial has the objects of the namespaces that were not listed yet, at the resource version at.
	initial     map[string]map[string]runtime.Object
	at          string
	filled      time.Time
	recent      []recentEvent
	subscribers map[string][]*subscriber
}

type recentEvent struct {
	namespace, version string
	at                 time.Time
	event              watch.Event
}

func newStream(ctx context.Context, streams *Streams, key streamKey) *stream {
	s := &stream{
		streams: streams, key: key, covered: map[string]string{}, changed: make(chan struct{}), subscribers: map[string][]*subscriber{},
		initial: map[string]map[string]runtime.Object{},
	}
	// Other watches use the stream, too.
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// subscribe returns the events of a namespace after a resource version. It returns errNotCovered if the watch
// did not begin or the feed does not have the namespace, errEnded if the watch has ended, and an error of type
// Expired if the stream no longer has all events.
func (s *stream) subscribe(ctx context.Context, namespace, version string) (watch.Interface, error) {
	if s.err != nil {
		return nil, s.refusal()
	}
	ctx, cancel := context.WithTimeout(ctx, coverageTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		_, isCovered := s.covered[namespace]
		if isCovered || s.hasEnded {
			break
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil, errEnded
		case <-ctx.Done():
			return nil, errNotCovered
		}
	}
	defer s.mu.Unlock()
	if s.hasEnded {
		return nil, errEnded
	}
	if isBefore(version, s.start) || isBefore(version, s.covered[namespace]) {
		return nil, apierrors.NewResourceExpired("the feed of the provider began at a later resource version")
	}
	var replay []watch.Event
	for _, e := range s.recent {
		if e.namespace == namespace && isBefore(version, e.version) {
			replay = append(replay, copyOf(e.event))
		}
	}
	sub := &subscriber{
		stream: s, namespace: namespace, from: version,
		events: make(chan watch.Event, buffered+len(replay)), done: make(chan struct{}),
	}
	for _, e := range replay {
		sub.events <- e
	}
	s.subscribers[namespace] = append(slices.Clone(s.subscribers[namespace]), sub)
	return sub, nil
}

// refusal returns the error of watches of a stream that did not begin.
func (s *stream) refusal() error {
	if apierrors.IsResourceExpired(s.err) || apierrors.IsGone(s.err) {
		return s.err
	}
	return errNotCovered
}

// take returns the objects of a namespace once, and their resource version. ok is false if the stream
// does not have them, or not as of a resource version.
func (s *stream) take(ctx context.Context, namespace, version string) (objects []runtime.Object, at string, ok bool) {
	if s.err != nil {
		return nil, "", false
	}
	ctx, cancel := context.WithTimeout(ctx, initialTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		if s.hasEnded || !s.isFilling {
			break
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, "", false
		}
	}
	defer s.mu.Unlock()
	byName, ok := s.initial[namespace]
	if !ok || version != "0" && isBefore(s.at, version) || s.streams.now().Sub(s.filled) > initialTimeout {
		return nil, "", false
	}
	delete(s.initial, namespace)
	return slices.Collect(maps.Values(byName)), s.at, true
}

// run passes the events of the watch until it ends, and ends all subscribers.
func (s *stream) run(w watch.Interface) {
	defer s.cancel()
	defer w.Stop()
	last := s.handleAll(w.ResultChan())
	// Later watches open another stream.
	s.streams.forget(s)
	defer s.streams.dropInitial(s)
	if last == nil {
		last = s.lastBookmark()
	}
	s.end(last)
}

// handleAll handles events until they end. It returns the error with which they did, if there is one.
func (s *stream) handleAll(events <-chan watch.Event) *watch.Event {
	// After a burst there may be no event for a minute, and those that are kept take megabytes.
	ticker := time.NewTicker(recentTime)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.dropOld()
		case e, ok := <-events:
			if !ok {
				return nil
			}
			if e.Type == watch.Error {
				return &e
			}
			object, err := meta.Accessor(e.Object)
			if err != nil {
				return nil
			}
			s.handle(e, object)
		}
	}
}

// lastBookmark returns a bookmark with the position, nil before the first bookmark of the feed. All
// watches continue from there: the next stream begins at the version of the first one, and the
// others would have to list again if they were behind.
func (s *stream) lastBookmark() *watch.Event {
	if s.template == nil {
		return nil
	}
	bookmark := s.template.DeepCopyObject()
	object, err := meta.Accessor(bookmark)
	if err != nil {
		return nil
	}
	object.SetAnnotations(nil)
	object.SetResourceVersion(s.position)
	return &watch.Event{Type: watch.Bookmark, Object: bookmark}
}

func (s *stream) handle(e watch.Event, object metav1.Object) {
	version := object.GetResourceVersion()
	s.position = version
	if e.Type != watch.Bookmark {
		for _, sub := range s.record(e, object) {
			s.send(sub, e, version)
		}
		return
	}
	s.template = e.Object
	if object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
		s.endInitial(version)
		return
	}
	if namespaces, ok := feed.Namespaces(object); ok {
		for _, sub := range s.cover(namespaces, version) {
			close(sub.events)
		}
		return
	}
	subscribers, isNeeded := s.bookmark(version)
	for _, sub := range subscribers {
		s.send(sub, e, version)
	}
	if !isNeeded {
		s.streams.dropInitial(s)
	}
}

// endInitial makes the initial events those of lists, and of watches that follow them.
func (s *stream) endInitial(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isFilling, s.start, s.at, s.filled = false, version, version, s.streams.now()
	s.coverLocked(s.announced, version)
	for namespace := range s.covered {
		if s.initial[namespace] == nil {
			s.initial[namespace] = map[string]runtime.Object{}
		}
	}
}

// record keeps an event for later subscribers and returns the current ones of its namespace.
func (s *stream) record(e watch.Event, object metav1.Object) []*subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, version, now := object.GetNamespace(), object.GetResourceVersion(), s.streams.now()
	if s.isFilling {
		if s.initial[namespace] == nil {
			s.initial[namespace] = map[string]runtime.Object{}
		}
		s.initial[namespace][object.GetName()] = e.Object
		return nil
	}
	s.at = version
	if byName, ok := s.initial[namespace]; ok {
		if delete(byName, object.GetName()); e.Type != watch.Deleted {
			byName[object.GetName()] = e.Object.DeepCopyObject()
		}
	}
	s.recent = append(s.recent, recentEvent{namespace: namespace, version: version, at: now, event: e})
	s.dropOldLocked(now)
	return s.subscribers[namespace]
}

// bookmark drops what is old, and returns all subscribers and whether the initial events are needed.
func (s *stream) bookmark(version string) (all []*subscriber, isNeeded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isFilling {
		return nil, true
	}
	now := s.streams.now()
	s.at = version
	s.dropOldLocked(now)
	if now.Sub(s.filled) > initialTimeout {
		s.initial = nil
	}
	for _, subscribers := range s.subscribers {
		all = append(all, subscribers...)
	}
	return all, len(s.initial) > 0
}

func (s *stream) dropOld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropOldLocked(s.streams.now())
}

func (s *stream) dropOldLocked(now time.Time) {
	keep := 0
	for keep < len(s.recent) && (len(s.recent)-keep > recentEvents || now.Sub(s.recent[keep].at) > recentTime) {
		s.start = s.recent[keep].version
		keep++
	}
	if s.recent = slices.Delete(s.recent, 0, keep); len(s.recent) == 0 {
		s.recent = nil
	}
}

// cover sets the namespaces of the stream from a resource version on, and returns the subscribers of
// others, whose watches end.
func (s *stream) cover(namespaces []string, version string) (ended []*subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isFilling {
		s.announced = namespaces
		return nil
	}
	return s.coverLocked(namespaces, version)
}

func (s *stream) coverLocked(namespaces []string, version string) (ended []*subscriber) {
	covered := map[string]string{}
	for _, namespace := range namespaces {
		covered[namespace] = version
		if since, ok := s.covered[namespace]; ok {
			covered[namespace] = since
		}
	}
	for namespace, subscribers := range s.subscribers {
		if _, ok := covered[namespace]; !ok {
			ended = append(ended, subscribers...)
			delete(s.subscribers, namespace)
		}
	}
	maps.DeleteFunc(s.initial, func(namespace string, _ map[string]runtime.Object) bool {
		_, ok := covered[namespace]
		return !ok
	})
	s.covered = covered
	close(s.changed)
	s.changed = make(chan struct{})
	return ended
}

// end ends all subscribers, with an event if it is not nil.
func (s *stream) end(last *watch.Event) {
	s.mu.Lock()
	subscribers := s.subscribers
	s.subscribers, s.covered, s.recent, s.initial, s.hasEnded = map[string][]*subscriber{}, nil, nil, nil, true
	close(s.changed)
	s.mu.Unlock()
	for _, list := range subscribers {
		for _, sub := range list {
			if last != nil {
				sub.offer(copyOf(*last))
			}
			close(sub.events)
		}
	}
}

// send passes an event to a subscriber, unless it has it from its list. It ends the watch of one that
// does not read.
func (s *stream) send(sub *subscriber, e watch.Event, version string) {
	if isBefore(sub.from, version) && !sub.offer(copyOf(e)) && s.remove(sub) {
		close(sub.events)
	}
}

// remove reports whether the stream had the subscriber.
func (s *stream) remove(sub *subscriber) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.subscribers[sub.namespace]
	after := slices.DeleteFunc(slices.Clone(before), func(other *subscriber) bool { return other == sub })
	if len(after) == 0 {
		delete(s.subscribers, sub.namespace)
	} else {
		s.subscribers[sub.namespace] = after
	}
	return len(after) < len(before)
}

// subscriber is a watch of one namespace. Only the goroutine of the stream sends and closes events.
type subscriber struct {
	stream          *stream
	namespace, from string
	events          chan watch.Event
	done            chan struct{}
	stop            sync.Once
}

// ResultChan implements watch.Interface.
func (s *subscriber) ResultChan() <-chan watch.Event { return s.events }

// Stop implements watch.Interface.
func (s *subscriber) Stop() {
	s.stop.Do(func() {
		close(s.done)
		s.stream.remove(s)
		s.stream.streams.release(s.stream)
	})
}

// offer reports whether the subscriber took an event, or needs none any more.
func (s *subscriber) offer(e watch.Event) bool {
	select {
	case s.events <- e:
		return true
	case <-s.done:
		return true
	default:
	}
	timer := time.NewTimer(sendTimeout)
	defer timer.Stop()
	select {
	case s.events <- e:
		return true
	case <-s.done:
		return true
	case <-timer.C:
		return false
	}
}

// copyOf copies an event: subscribers alter what they store.
func copyOf(e watch.Event) watch.Event {
	return watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}
}

// isBefore reports whether a resource version is lower than another.
func isBefore(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order < 0
}

func trimList(kind string) string { return strings.TrimSuffix(kind, "List") }
