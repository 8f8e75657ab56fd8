// Package undecodable keeps one object that cannot be decoded from stopping the informer of its kind, and
// with it a whole process. An API server serves what it stored before a CustomResourceDefinition became
// stricter: an amount such as 1e1.5, or a time with a lower-case t. Go decodes a list as a whole, and each
// event of a watch in its turn, so that such an object would hide all others, those of other clusters too.
//
// A list or watch that cannot be decoded is asked for again through a [Filter], which leaves out the objects
// that cannot be decoded and reports them. For the process they do not exist until they can be decoded, and
// one that becomes such an object is gone. As long as all objects can be decoded, no request and no answer
// changes, and each watch has one more goroutine.
package undecodable

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// ReportTo reports objects that are left out by events, too. Without it, they are in the log only.
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
	ctrl.Log.WithName("undecodable").Error(err, "An object cannot be decoded, and is left out",
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
	return restore.NewInformer(filtered, example, resync, indexers)
}

// listerWatcher asks through the filter while there are objects that cannot be decoded.
type listerWatcher struct {
	inner  cache.ListerWatcherWithContext
	isOpen atomic.Bool
}

// found is the key of a context of requests that are filtered. Its value is set when an object is left out.
type found struct{}

func (l *listerWatcher) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if !l.isOpen.Load() {
		list, err := l.inner.ListWithContext(ctx, options)
		if !isDecoding(err) {
			return list, err //nolint:wrapcheck // That of the API server.
		}
	}
	isFound := &atomic.Bool{}
	list, err := l.inner.ListWithContext(context.WithValue(ctx, found{}, isFound), options)
	l.isOpen.Store(isFound.Load())
	return list, err //nolint:wrapcheck // That of the API server.
}

func (l *listerWatcher) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if l.isOpen.Load() {
		return l.inner.WatchWithContext(context.WithValue(ctx, found{}, &atomic.Bool{}), options) //nolint:wrapcheck // That of the API server.
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

// isDecoding reports whether a list came and could not be decoded, as far as that can be known: errors of
// the API server and of the network have types, those of decoders do not.
func isDecoding(err error) bool {
	var status apierrors.APIStatus
	var network net.Error
	return err != nil && !errors.As(err, &status) && !errors.As(err, &network) && !errors.Is(err, context.Canceled)
}
