// Package feed makes the watches of a virtual kubelet share one watch per kind of the provider's
// feed.
//
// A watch continues from the resource version of a list of its namespace with the events of the
// feed. It uses a watch of its own if the provider has no feed, or the feed does not have the
// namespace. The first list of each namespace, at a start or after an outage, is made of the initial
// events of the feed. Other lists, and all writes, go to the API server of the provider.
//
// Each namespace takes its initial objects once, brought up to date with later events; they are dropped
// after 30 s. Kinds without labels of the consumer (events) are listed in each namespace, because the feed
// would read those of all consumers, and custom resources are watched in each namespace. A watch that
// begins before the stream, or before the feed had the namespace, is expired, and the namespace is listed
// again.
//
// A session asks once whether the provider has a feed. If the feed fails, or does not have a namespace
// within ten seconds, that namespace is watched directly, and the log says so once per kind. The next
// watch of the namespace tries the feed again, which is after ten minutes at the latest. A feed without
// initial events serves watches only. A watch whose stream ends before it has begun uses the next one. A replica of the feed that stops ends its watches and answers new
// ones with 503 and Retry-After, so that client-go repeats them at another replica. At its end, a stream
// gives all watches a bookmark with its last resource version: they continue in the next stream without a
// list.
package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/kit/feed"
)

const (
	// discoveryTimeout bounds the request that asks whether a provider has a feed.
	discoveryTimeout = 2 * time.Second
	// openTimeout bounds how long the feed takes to begin a watch.
	openTimeout = 15 * time.Second
	// coverageTimeout is how long a watch waits until the feed has its namespace.
	coverageTimeout = 10 * time.Second
	// retryAfter is how long watches, and lists, do without a feed that failed.
	retryAfter = 30 * time.Second
	// initialTimeout is how long a list waits for the initial events, and how long they are kept.
	initialTimeout = 30 * time.Second
	// maxStreams is in how many streams, one after the other, a watch tries to begin. In a burst, the API
	// server may end the next stream before all namespaces are in it.
	maxStreams = 3
)

var errTimeout = errors.New("the feed does not begin the watch")

// IsServed reports whether a provider has a feed. It is true if the provider could not be asked:
// each watch does without the feed if it fails.
func IsServed(ctx context.Context, config *rest.Config) bool {
	c, err := unversioned(config, feed.JSON)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	return !apierrors.IsNotFound(c.Get().AbsPath(feed.Path).Do(ctx).Error())
}

// Streams are the open watches of a feed. Clients of the same provider and user can share them. It is
// safe for concurrent use.
type Streams struct {
	now func() time.Time

	mu   sync.Mutex
	open map[streamKey]*stream
	// failed is when a watch of the feed failed last, by kind. refused is when it did not send initial
	// events.
	failed, refused map[schema.GroupVersionKind]time.Time
}

type streamKey struct {
	kind           schema.GroupVersionKind
	labels, fields string
}

// NewStreams returns Streams without a watch.
func NewStreams(now func() time.Time) *Streams {
	return &Streams{now: now, open: map[streamKey]*stream{}, failed: map[schema.GroupVersionKind]time.Time{}, refused: map[schema.GroupVersionKind]time.Time{}}
}

// Client is a client of a provider whose watches share those of the feed.
type Client struct {
	client.WithWatch

	// watch opens a watch of the feed.
	watch   func(ctx context.Context, kind schema.GroupVersionKind, options *metav1.ListOptions) (watch.Interface, error)
	streams *Streams
}

// New returns a Client. direct is the client of the API server.
func New(direct client.WithWatch, feed *Reader, streams *Streams) *Client {
	return &Client{WithWatch: direct, watch: feed.watch, streams: streams}
}

// IsWatchListSemanticsUnSupported reports to reflectors that a watch has no initial events: they list
// instead.
func (c *Client) IsWatchListSemanticsUnSupported() bool { return true }

// List implements client.Reader.
func (c *Client) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if c.listInitial(ctx, list, (&client.ListOptions{}).ApplyOptions(options)) {
		return nil
	}
	return c.WithWatch.List(ctx, list, options...) //nolint:wrapcheck // The reflector inspects it.
}

// listInitial fills a list from the initial events of the feed, and reports whether it did. Lists that
// must be current are not made of them, nor those of kinds without labels: the feed would read the
// objects of all consumers.
func (c *Client) listInitial(ctx context.Context, list client.ObjectList, o *client.ListOptions) bool {
	raw := o.AsListOptions()
	kind, err := c.kindOf(list)
	if err != nil || !isServed(kind) || o.Namespace == "" || raw.LabelSelector == "" || raw.ResourceVersion == "" ||
		raw.ResourceVersionMatch == metav1.ResourceVersionMatchExact || raw.Continue != "" {
		return false
	}
	s := c.streams.acquireInitial(ctx, streamKey{kind: kind, labels: raw.LabelSelector, fields: raw.FieldSelector})
	if s == nil {
		return false
	}
	defer c.streams.release(s)
	s.open.Do(func() { c.open(ctx, s, raw) })
	objects, version, ok := s.take(ctx, o.Namespace, raw.ResourceVersion)
	if !ok || meta.SetList(list, objects) != nil {
		return false
	}
	list.SetResourceVersion(version)
	return true
}

// Watch implements client.WithWatch.
func (c *Client) Watch(ctx context.Context, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	o := (&client.ListOptions{}).ApplyOptions(options)
	raw := o.AsListOptions()
	kind, err := c.kindOf(list)
	version := raw.ResourceVersion
	if err != nil || !isServed(kind) || o.Namespace == "" || version == "" || version == "0" || raw.SendInitialEvents != nil {
		return c.direct(ctx, list, o)
	}
	w, err := c.subscribe(ctx, kind, o.Namespace, raw)
	for tries := 1; errors.Is(err, errEnded) && tries < maxStreams; tries++ {
		w, err = c.subscribe(ctx, kind, o.Namespace, raw)
	}
	if errors.Is(err, errNotCovered) || errors.Is(err, errEnded) {
		return c.direct(ctx, list, o)
	}
	return w, err
}

// subscribe returns the watch of a namespace that shares a stream. It returns errNotCovered if the feed cannot
// serve it, and errEnded if the stream ended meanwhile.
func (c *Client) subscribe(ctx context.Context, kind schema.GroupVersionKind, namespace string, raw *metav1.ListOptions) (watch.Interface, error) {
	s := c.streams.acquire(ctx, streamKey{kind: kind, labels: raw.LabelSelector, fields: raw.FieldSelector})
	if s == nil {
		return nil, errNotCovered
	}
	s.open.Do(func() { c.open(ctx, s, raw) })
	w, err := s.subscribe(ctx, namespace, raw.ResourceVersion)
	if err != nil {
		c.streams.release(s)
		return nil, err
	}
	return w, nil
}

func isServed(kind schema.GroupVersionKind) bool {
	_, ok := feed.ResourceOf(kind)
	return ok
}

func (c *Client) kindOf(list client.ObjectList) (schema.GroupVersionKind, error) {
	kind, err := c.GroupVersionKindFor(list)
	if err != nil {
		return kind, fmt.Errorf("reading the kind of a list: %w", err)
	}
	kind.Kind = trimList(kind.Kind)
	return kind, nil
}

func (c *Client) direct(ctx context.Context, list client.ObjectList, o *client.ListOptions) (watch.Interface, error) {
	return c.WithWatch.Watch(ctx, list, o) //nolint:wrapcheck // The reflector inspects it.
}

// acquire returns the stream of a key, nil while watches do without the feed. The caller releases it.
func (s *Streams) acquire(ctx context.Context, key streamKey) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.open[key]; found != nil {
		found.users++
		return found
	}
	if at, ok := s.failed[key.kind]; ok && s.now().Sub(at) < retryAfter {
		return nil
	}
	return s.addLocked(ctx, key)
}

// acquireInitial returns the stream of a key if it has initial events for lists, nil otherwise. The
// caller releases it.
func (s *Streams) acquireInitial(ctx context.Context, key streamKey) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.open[key]; found != nil {
		if !found.isHeld {
			return nil
		}
		found.users++
		return found
	}
	for _, failed := range []map[schema.GroupVersionKind]time.Time{s.failed, s.refused} {
		if at, ok := failed[key.kind]; ok && s.now().Sub(at) < retryAfter {
			return nil
		}
	}
	added := s.addLocked(ctx, key)
	added.isInitial, added.isFilling, added.isHeld = true, true, true
	added.users++ // until the initial events are dropped
	return added
}

func (s *Streams) addLocked(ctx context.Context, key streamKey) *stream {
	added := newStream(ctx, s, key)
	added.users = 1
	s.open[key] = added
	return added
}

// dropInitial lets a stream without other users end, and makes later lists do without it.
func (s *Streams) dropInitial(used *stream) {
	s.mu.Lock()
	wasHeld := used.isHeld
	used.isHeld = false
	s.mu.Unlock()
	if wasHeld {
		s.release(used)
	}
}

// release ends a stream that has no other user.
func (s *Streams) release(used *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if used.users--; used.users == 0 {
		used.cancel()
		s.forgetLocked(used)
	}
}

// forget makes later watches use another stream.
func (s *Streams) forget(ended *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(ended)
}

func (s *Streams) forgetLocked(ended *stream) {
	if s.open[ended.key] == ended {
		delete(s.open, ended.key)
	}
}

// open opens the watch of a stream with the selectors of its first user, and from its resource version
// or with initial events.
func (c *Client) open(ctx context.Context, s *stream, first *metav1.ListOptions) {
	defer context.AfterFunc(ctx, s.cancel)()
	options := &metav1.ListOptions{LabelSelector: first.LabelSelector, FieldSelector: first.FieldSelector, AllowWatchBookmarks: true}
	if s.isInitial {
		options.SendInitialEvents, options.ResourceVersionMatch = ptr.To(true), metav1.ResourceVersionMatchNotOlderThan
	} else {
		options.ResourceVersion = first.ResourceVersion
	}
	timeout := time.AfterFunc(openTimeout, s.cancel)
	w, err := c.watch(s.ctx, s.key.kind, options)
	if !timeout.Stop() && err == nil {
		w.Stop()
		err = errTimeout
	}
	if err != nil {
		s.err = err
		c.streams.fail(ctx, s, err)
		c.streams.forget(s)
		c.streams.dropInitial(s)
		return
	}
	s.start = options.ResourceVersion
	go s.run(w)
}

// fail records that the feed failed, so that watches, or lists, do without it for a time.
func (s *Streams) fail(ctx context.Context, failed *stream, err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || ctx.Err() != nil {
		return
	}
	kind := failed.key.kind
	s.mu.Lock()
	defer s.mu.Unlock()
	what, at := "watching", s.failed
	if failed.isInitial {
		what, at = "listing", s.refused
	}
	at[kind] = s.now()
	logr.FromContextOrDiscard(ctx).Info("The feed of the provider cannot be used, "+what+" each namespace",
		"kind", kind.Kind, "reason", err.Error(), "retryAfter", retryAfter.String())
}
