// Package restore keeps caches correct when an API server is restored from a backup.
//
// A restored API server has lower resource versions than a cache. A watch that continues from
// the cache's version succeeds and returns no events until the server reaches that version
// again, and what happened in between is lost. client-go does not detect that. Therefore a watch
// continues only on a server that answered all the time and has not gone back: before that, one
// object is listed. All informers of the product are made here; the reflection engine compares with the
// versions of its own writes, too. Each watch that continues after an early end costs a request, and each
// outage of an API server a list for each informer, as a restart of the component would.
//
// `etcdutl snapshot restore --bump-revision --mark-compacted` avoids all this, if the operator of the
// provider knows of it; the consumer cannot rely on that. The version alone does not tell: after a
// restart, controllers and kubelets write so much that the server is often past the cache's version before
// the first watch continues. A server that answers with an error status, such as 429, was not away. If
// the list is refused, the watch waits: a server that has just started refuses lists until it knows the
// roles, and accepts a watch a moment later.
//
// A list at a version that contains an older state of a cached object comes from a restored server, and
// replaces the object. An object that replaces another one of its name is a deletion and an addition: a
// ShadowPod that was created again for the same pod stayed without a remote pod.
//
// Caches are not all that a process remembers, so a manager that finds its lease older than its last
// renewal, or absent, ends and starts again (package lease). A requested namespace that the provider does
// not report is still mapped: its older status is copied to the consumer before the provider creates the
// namespace again. host/app/kubelet.TestLongProviderRestoredFromAnOlderEtcd holds all this with all components.
package restore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// NewInformer is cache.NewSharedIndexInformer with [Detect]. Its handlers get an object that replaces
// another one of its name as a deletion and an addition: the list after an outage holds both changes
// at once, and an update of an object that is like the one before may be of no interest to them.
func NewInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return informer{cache.NewSharedIndexInformer(Detect(lw), example, resync, indexers)}
}

type informer struct{ cache.SharedIndexInformer }

func (i informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

func (i informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &period})
}

func (i informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := i.SharedIndexInformer.AddEventHandlerWithOptions(splitReplacements(h), options)
	if err != nil {
		return nil, fmt.Errorf("adding an event handler: %w", err)
	}
	return registration, nil
}

func splitReplacements(h cache.ResourceEventHandler) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: h.OnAdd,
		UpdateFunc: func(before, after any) {
			if uidOf(before) == uidOf(after) {
				h.OnUpdate(before, after)
				return
			}
			h.OnDelete(before)
			h.OnAdd(after, false)
		},
		DeleteFunc: h.OnDelete,
	}
}

func uidOf(object any) types.UID {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetUID()
}

// Detect returns a ListerWatcher whose watches fail with 410 Gone, so that a reflector lists all
// objects, if the API server is at a lower resource version than the one from which they continue,
// or could not be reached since the last list or watch. A watch that continues costs one more
// request, a list of one object, unless it begins right after the list of all objects, or the API
// server has served the one before for as long as it was to last.
func Detect(lw cache.ListerWatcher) cache.ListerWatcher { return DetectWith(lw, isBehind) }

// isBehind reports whether the API server is at a lower resource version than a watch.
func isBehind(server, watched string) bool {
	order, err := resourceversion.CompareResourceVersion(server, watched)
	return err == nil && order < 0
}

// DetectWith is [Detect] with another comparison. isBehind gets the resource version of the API
// server, and the one from which a watch continues.
func DetectWith(lw cache.ListerWatcher, isBehind func(server, watched string) bool) cache.ListerWatcher {
	return detect(lw, isBehind, time.Now) //nolint:forbidigo // cache.NewInformerFunc has no clock.
}

func detect(lw cache.ListerWatcher, isBehind func(server, watched string) bool, now func() time.Time) cache.ListerWatcher {
	d := &detector{inner: cache.ToListerWatcherWithContext(lw), isBehind: isBehind, now: now, pace: rate.NewLimiter(listsPerSecond, listsBurst)}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: d.list, WatchFuncWithContext: d.watch}, lw)
}

// justNow is how long after a list, or after the end of a watch, the next watch begins.
const justNow = 2 * time.Second

// repeatPause is how long client-go waits before it repeats a read without a word, up to 10 times, after a
// connection was lost. A read that took that long may have come through only after an outage.
const repeatPause = time.Second

const (
	// listsBurst is how many lists and watches may begin again at once, and listsPerSecond how many more: client-go
	// makes no pause when a server says in a watch that the resource version expired.
	listsBurst     = 20
	listsPerSecond = 1
)

type detector struct {
	inner    cache.ListerWatcherWithContext
	isBehind func(server, watched string) bool
	now      func() time.Time
	// ends is when the last watch was to end; nil if it had no timeout.
	ends atomic.Pointer[time.Time]
	// pace is that of lists and watches after the first.
	pace *rate.Limiter
	// hasRead is set with the first list or watch.
	hasRead atomic.Bool
	// listed is the last list of all objects.
	listed atomic.Pointer[listed]
	// isLost is set when the API server was not reached since the last list or watch. It may
	// have been restored meanwhile, and have reached the resource version again.
	isLost atomic.Bool
}

// listed is when a list came, and its resource version.
type listed struct {
	at      time.Time
	version string
}

func (d *detector) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.Continue == "" && d.hasRead.Load() {
		if err := d.check(ctx, options.ResourceVersion); err != nil {
			return nil, err
		}
	}
	list, err := d.inner.ListWithContext(ctx, options)
	if accessor, noList := meta.ListAccessor(list); err == nil && noList == nil {
		d.hasRead.Store(true)
		d.listed.Store(&listed{at: d.now(), version: accessor.GetResourceVersion()})
	}
	return list, d.observe(err)
}

func (d *detector) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if d.mustCheck(options) {
		if err := d.check(ctx, options.ResourceVersion); err != nil {
			return nil, err
		}
	}
	var ends *time.Time
	if options.TimeoutSeconds != nil {
		ends = ptr.To(d.now().Add(time.Duration(*options.TimeoutSeconds) * time.Second))
	}
	w, err := d.inner.WatchWithContext(ctx, options)
	d.ends.Store(ends)
	if err == nil {
		d.hasRead.Store(true)
	}
	return w, d.observe(err)
}

// mustCheck reports whether the API server may have been restored before a watch. One that begins with all
// objects has nothing to lose if it is the first.
func (d *detector) mustCheck(options metav1.ListOptions) bool {
	if options.SendInitialEvents != nil {
		return d.hasRead.Load()
	}
	return !d.wasServed() && !d.wasListed(options.ResourceVersion)
}

// wasListed reports whether all objects were just listed at a resource version.
func (d *detector) wasListed(version string) bool {
	last := d.listed.Load()
	return last != nil && last.version == version && !d.isLost.Load() && d.now().Sub(last.at) < justNow
}

// wasServed reports whether the last watch has just reached its timeout. An API server that was
// restored meanwhile would have ended it before, or could not have been reached for longer.
func (d *detector) wasServed() bool {
	ends := d.ends.Load()
	if ends == nil || d.isLost.Load() {
		return false
	}
	since := d.now().Sub(*ends)
	return since >= 0 && since < justNow
}

// observe records whether the API server was reached. A proxy before it may have answered that it was not.
func (d *detector) observe(err error) error {
	switch reason := apierrors.ReasonForError(err); {
	case err == nil:
		d.isLost.Store(false)
	case reason == metav1.StatusReasonUnknown, apierrors.IsServiceUnavailable(err):
		d.isLost.Store(true)
	}
	return err
}

// check returns an error if the API server must not be asked for what is not older than a resource version, also
// if that is not known: a server that has just started may refuse the list and accept the watch a moment later.
// Without a version it answers with all that it has, which is right after a restore, too.
func (d *detector) check(ctx context.Context, version string) error {
	if err := d.pace.Wait(ctx); err != nil {
		return fmt.Errorf("waiting after too many lists: %w", err)
	}
	wasLost, began := d.isLost.Load(), d.now()
	server, err := d.serverVersion(ctx)
	if err := d.observe(err); err != nil {
		return err
	}
	wasLost = wasLost || d.now().Sub(began) >= repeatPause
	isBehind := d.isBehind(server, version)
	switch {
	case version == "":
		return nil
	case isBehind:
		return apierrors.NewResourceExpired("the API server is at a lower resource version than before: it was restored from a backup")
	case wasLost:
		return apierrors.NewResourceExpired("the API server could not be reached, and may have been restored from a backup")
	default:
		return nil
	}
}

// serverVersion returns the resource version of the API server.
func (d *detector) serverVersion(ctx context.Context) (string, error) {
	list, err := d.inner.ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err //nolint:wrapcheck // The reflector inspects it.
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return "", fmt.Errorf("reading the resource version of a list: %w", err)
	}
	return accessor.GetResourceVersion(), nil
}
