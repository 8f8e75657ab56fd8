package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// moments counts failed checks of the provider and reads of objects, in the order in which they happen.
var moments atomic.Uint64

// reachability is the state of the link to the provider.
type reachability struct {
	mu   sync.Mutex
	down bool
	// failed is the moment of the last failed check; zero before the first outage.
	failed uint64
}

// set records the result of a check and reports whether the link changed.
func (r *reachability) set(up bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !up {
		r.failed = moments.Add(1)
	}
	changed := r.down == up
	r.down = !up
	return changed
}

// isDown reports whether an outage lasts.
func (r *reachability) isDown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down
}

// isKnown reports whether objects that were read at a moment are the state of the provider: no check failed
// later.
func (r *reachability) isKnown(read uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.down && r.failed < read
}

// freshness says when all objects of a store were read: when the store was made, or later beside the watch.
type freshness struct {
	moment atomic.Uint64
	// reading is locked during the read.
	reading sync.Mutex
}

// Reachable sets whether the provider is reachable; it is at first. It is called with the result of each
// check. After an outage, the dependent objects that were read before the last failed check are unknown
// (Facts.RemoteUnknown) until a decision reads them again with [RefreshRemote]: a watch may show an old
// state after the link is back. Then all objects with a dependent are decided again.
func (e *Engine) Reachable(up bool) {
	if !e.link.set(up) || !up {
		return
	}
	e.each(func(r *runner, key Key) {
		if r.resource.Dependent != nil {
			r.queue.Add(key)
		}
	})
}

// isUnknown reports whether the dependent objects were read before an outage.
func (c *namespaceCaches) isUnknown(link *reachability) bool {
	return !link.isKnown(c.dependent.fresh.moment.Load())
}

// askDependent reads the dependent object that the watch has lost.
func (x *execution) askDependent(ctx context.Context, a AskDependent) error {
	if x.caches == nil || x.caches.dependent == nil {
		return fmt.Errorf("action %T without a dependent kind: this is a bug in the definition", a)
	}
	object, name := x.resource.Dependent.New(), x.toRemote(x.in.Key.Name)
	err := x.engine.options.Remote.Get(ctx, client.ObjectKey{Namespace: x.in.Facts.RemoteNamespace, Name: name}, object)
	x.observe(directionOut, "get", client.IgnoreNotFound(err))
	switch {
	case err == nil && a.IsOwn(object):
		return x.doAll(ctx, a.Exists)
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return fmt.Errorf("reading the dependent object of %s, which left the watch: %w", x.resource.Name, err)
	}
	x.caches.dependent.forgetLost(x.in.Facts.RemoteNamespace, name)
	return x.doAll(ctx, a.Gone)
}

// refreshRemote lists the dependent objects of the namespace once after each outage, and requeues the
// key. During an outage it does nothing, because its end requeues all keys.
func (x *execution) refreshRemote(ctx context.Context) error {
	if x.caches == nil || x.caches.dependent == nil {
		return fmt.Errorf("action %T without a dependent kind: this is a bug in the definition", RefreshRemote{})
	}
	link, fresh := &x.engine.link, &x.caches.dependent.fresh
	if link.isDown() {
		return nil
	}
	if !fresh.reading.TryLock() {
		return errStale // another worker reads them
	}
	defer fresh.reading.Unlock()
	if !x.caches.isUnknown(link) {
		return errStale
	}
	list, options, began := x.resource.Dependent.NewList(), x.selections.dependent.selection.options, moments.Add(1)
	options.Namespace = x.in.Facts.RemoteNamespace
	err := x.engine.options.Remote.List(ctx, list, &options)
	x.observe(directionIn, "list", err)
	if err != nil {
		return fmt.Errorf("reading the remote objects of %s again after an outage: %w", x.resource.Name, err)
	}
	objects, version, err := itemsOf(list)
	if err != nil {
		return fmt.Errorf("reading the remote objects of %s again after an outage: %w", x.resource.Name, err)
	}
	if x.caches.dependent.refresh(objects, version) {
		fresh.moment.Store(began)
	}
	return errStale
}

// refresh replaces the objects by those of a list that was read beside the watch. It reports false if the
// API server was restored from a backup, or has too many objects: the next list of the watch replaces all
// objects then.
func (s *store) refresh(list []any, version string) bool {
	altered, ok := s.replaceListed(s.prepare(list), version)
	for _, object := range altered {
		s.changed(object)
	}
	return ok
}

// replaceListed is refresh without calling changed. It returns the objects that were added, changed or
// removed.
func (s *store) replaceListed(items map[types.NamespacedName]item, version string) (altered []client.Object, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(version, s.seen); err == nil && order < 0 {
		s.restored = true
		return nil, false
	}
	if s.admitAll(items) != nil {
		return nil, false // The watch ends, and reads them again later.
	}
	for name, have := range s.objects.in("") {
		if _, isListed := items[name]; isListed || knownNewerVersion(have.version, version) {
			continue
		}
		gone := s.unwrap(have)
		s.leave(name, gone)
		altered = append(altered, gone)
	}
	s.raiseNewest(version)
	return append(altered, s.putListed(items, version)...), true
}
