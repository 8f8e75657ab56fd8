package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reachability is the state of the link to the provider. Each outage has a number.
type reachability struct {
	mu      sync.Mutex
	outages uint64
	down    bool
}

// set reports whether the link changed.
func (r *reachability) set(up bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down != up {
		return false
	}
	r.down = !up
	if r.down {
		r.outages++
	}
	return true
}

// get returns the number of the last outage, and whether it lasts.
func (r *reachability) get() (outages uint64, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outages, r.down
}

// freshness is the number of the last outage before dependent objects of a namespace were
// read.
type freshness struct {
	outages atomic.Uint64
	// reading is locked during the read.
	reading sync.Mutex
}

// Reachable sets whether the provider is reachable; it is at first. After an outage, the
// dependent objects that were read before are unknown (Facts.RemoteUnknown) until a decision
// reads them again with [RefreshRemote]: a watch may show an old state after the link is
// back. Then all objects with a dependent are decided again.
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

// startFresh marks caches that are about to be filled. Objects that are read during an
// outage are unknown after it.
func (c *namespaceCaches) startFresh(link *reachability) {
	outages, down := link.get()
	if down {
		outages--
	}
	c.fresh.outages.Store(outages)
}

// isUnknown reports whether the dependent objects were read before an outage.
func (c *namespaceCaches) isUnknown(link *reachability) bool {
	outages, down := link.get()
	return down || c.fresh.outages.Load() != outages
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

// refreshRemote lists the dependent objects of the namespace once after each outage, and
// requeues the key. During an outage it does nothing, because its end requeues all keys.
func (x *execution) refreshRemote(ctx context.Context) error {
	if x.caches == nil || x.caches.dependent == nil {
		return fmt.Errorf("action %T without a dependent kind: this is a bug in the definition", RefreshRemote{})
	}
	outages, down := x.engine.link.get()
	if down {
		return nil
	}
	if !x.caches.fresh.reading.TryLock() {
		return errStale // another worker reads them
	}
	defer x.caches.fresh.reading.Unlock()
	if x.caches.fresh.outages.Load() == outages {
		return errStale
	}
	list := x.resource.Dependent.NewList()
	err := x.engine.options.Remote.List(ctx, list, &client.ListOptions{
		Namespace: x.in.Facts.RemoteNamespace, LabelSelector: x.engine.remoteSelector(x.resource.RemoteLabels),
	})
	x.observe(directionIn, "list", err)
	if err != nil {
		return fmt.Errorf("reading the remote objects of %s again after an outage: %w", x.resource.Name, err)
	}
	objects, version, err := itemsOf(list)
	if err != nil {
		return fmt.Errorf("reading the remote objects of %s again after an outage: %w", x.resource.Name, err)
	}
	if x.caches.dependent.replaceSelected(objects, version) {
		x.caches.fresh.outages.Store(outages)
	}
	return errStale
}
