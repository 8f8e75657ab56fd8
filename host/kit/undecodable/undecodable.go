// Package undecodable keeps one object that cannot be decoded from stopping the informer of its kind, and
// with it a whole process. An API server serves what it stored before a CustomResourceDefinition became
// stricter: an amount such as 1e1.5, or a time with a lower-case t. Go decodes a list as a whole, and each
// event of a watch in its turn, so that such an object would hide all others, those of other clusters too.
//
// A list or watch that cannot be decoded is asked for again through a [Filter], which reports the objects that
// cannot be decoded. Such an object ends nothing and grants nothing: the process keeps the form that it had
// before. A process that starts does not know that form, and the object is left out until it can be decoded, as
// if it did not exist: a CustomResourceDefinition that accepts less must accept all that is in use. As long as
// all objects can be decoded, no request and no answer changes, and each watch has one more goroutine.
package undecodable

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/longshore-dev/longshore/host/kit/restore"
)

// maxReported bounds how many objects are remembered as reported.
const maxReported = 1000

// Filter makes informers that leave out what cannot be decoded. It is safe for concurrent use.
type Filter struct {
	scheme  *runtime.Scheme
	decoder runtime.Decoder

	mu       sync.Mutex
	recorder events.EventRecorder
	// reported has the versions of objects that were reported.
	reported map[types.UID]string
}

// New returns a Filter for the kinds of a scheme.
func New(scheme *runtime.Scheme) *Filter {
	return &Filter{scheme: scheme, decoder: serializer.NewCodecFactory(scheme).UniversalDeserializer(), reported: map[types.UID]string{}}
}

// Wrap returns a copy of a configuration. Only informers whose requests use it can leave objects out.
func (f *Filter) Wrap(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(f.roundTripper)
	return wrapped
}

// ReportTo reports objects that cannot be decoded by events, too. Without it, they are in the log only.
func (f *Filter) ReportTo(recorder events.EventRecorder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recorder = recorder
}

// report tells the author of an object what is wrong with it, once for each version.
func (f *Filter) report(object *metav1.PartialObjectMetadata, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reported[object.UID] == object.ResourceVersion {
		return
	}
	if len(f.reported) >= maxReported {
		clear(f.reported)
	}
	f.reported[object.UID] = object.ResourceVersion
	ctrl.Log.WithName("undecodable").Error(err, "An object cannot be decoded, and is ignored",
		"kind", object.Kind, "namespace", object.Namespace, "name", object.Name)
	if f.recorder != nil {
		f.recorder.Eventf(object, nil, corev1.EventTypeWarning, "CannotBeDecoded", "Decode",
			"Longshore ignores this object until it is corrected or deleted: %v", err)
	}
}

// NewInformer is restore.NewInformer for a cache whose configuration is wrapped.
func (f *Filter) NewInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	l := &listerWatcher{inner: cache.ToListerWatcherWithContext(lw)}
	filtered := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: l.list, WatchFuncWithContext: l.watch}, lw)
	informer := restore.NewInformer(filtered, example, resync, indexers)
	l.store = informer.GetStore()
	return informer
}

// listerWatcher asks through the filter while there are objects that cannot be decoded.
type listerWatcher struct {
	inner  cache.ListerWatcherWithContext
	isOpen atomic.Bool
	// store is that of the informer.
	store cache.Store
}

// search is in the context of requests that are filtered, with its zero value as the key.
type search struct {
	// isFound is set when there is an object that cannot be decoded.
	isFound *atomic.Bool
	// store has objects as they were before.
	store cache.Store
}

func (l *listerWatcher) search() *search { return &search{isFound: &atomic.Bool{}, store: l.store} }

// before returns the JSON of an object as it was before it could not be decoded; nil if that is not known.
func (s *search) before(object *metav1.PartialObjectMetadata) json.RawMessage {
	known, exists, err := s.store.GetByKey(cache.MetaObjectToName(object).String())
	before, isObject := known.(runtime.Object)
	if err != nil || !exists || !isObject {
		return nil
	}
	if of, err := meta.Accessor(before); err != nil || of.GetUID() != object.UID {
		return nil
	}
	before = before.DeepCopyObject()
	before.GetObjectKind().SetGroupVersionKind(object.GroupVersionKind())
	raw, err := json.Marshal(before)
	if err != nil {
		return nil // It was decoded.
	}
	return raw
}

// instead returns the object of an event about one that cannot be decoded; nil if the event is left out.
func (s *search) instead(event watch.EventType, object *metav1.PartialObjectMetadata) json.RawMessage {
	switch event {
	case watch.Deleted:
		raw, _ := json.Marshal(object) // It was decoded from JSON.
		return raw
	case watch.Added:
		return s.before(object)
	default:
		// Its version would be older than that of events before.
		return nil
	}
}

func (l *listerWatcher) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if !l.isOpen.Load() {
		list, err := l.inner.ListWithContext(ctx, options)
		if !IsDecoding(err) {
			return list, err //nolint:wrapcheck // That of the API server.
		}
	}
	in := l.search()
	list, err := l.inner.ListWithContext(context.WithValue(ctx, search{}, in), options)
	l.isOpen.Store(in.isFound.Load())
	return list, err //nolint:wrapcheck // That of the API server.
}

func (l *listerWatcher) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if l.isOpen.Load() {
		return l.inner.WatchWithContext(context.WithValue(ctx, search{}, l.search()), options) //nolint:wrapcheck // That of the API server.
	}
	events, err := l.inner.WatchWithContext(ctx, options)
	if err != nil {
		return nil, err //nolint:wrapcheck // That of the API server.
	}
	return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		if event.Type == watch.Error && apierrors.HasStatusCause(apierrors.FromObject(event.Object), "ClientWatchDecoding") {
			l.isOpen.Store(true) // The reflector watches again.
		}
		return event, true
	}), nil
}

// IsDecoding reports whether an answer came and could not be decoded, as far as that can be known: errors of
// the API server, of the network and of answers that end early have types or these words, those of decoders do not.
func IsDecoding(err error) bool {
	var status apierrors.APIStatus
	var network net.Error
	return err != nil && !errors.As(err, &status) && !errors.As(err, &network) &&
		!errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "reading response body")
}
