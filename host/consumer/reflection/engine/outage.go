package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reachability is what is known of the link to the provider. Each outage has a number.
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

// freshness says after which outage the dependent objects of a namespace were read.
type freshness struct {
	outages atomic.Uint64
	// reading is held while they are read again.
	reading sync.Mutex
}

// Reachable takes over whether the provider answers. From an outage on, what was read
// before it is unknown (Facts.RemoteUnknown) until a decision asks for it again with
// [RefreshRemote]: a watch may go on showing an old state after the link is back. When it
// is back, every object with a dependent end is decided again. An engine that is not told
// takes the provider for reachable.
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

// startFresh marks ends whose caches are about to be filled. What is read during an outage
// that the watches outlive is not fresh afterwards.
func (end *ends) startFresh(link *reachability) {
	outages, down := link.get()
	if down {
		outages--
	}
	end.fresh.outages.Store(outages)
}

// isUnknown reports whether the dependent objects were read before an outage.
func (end *ends) isUnknown(link *reachability) bool {
	outages, down := link.get()
	return down || end.fresh.outages.Load() != outages
}

// refreshRemote reads the dependent objects of the namespace from the provider, once after
// each outage, and has the key decided again. During an outage it does nothing: the end
// of the outage makes another decision.
func (x *execution) refreshRemote(ctx context.Context) error {
	if x.end == nil || x.end.dependent == nil {
		return fmt.Errorf("action %T without a dependent end: this is a bug in the definition", RefreshRemote{})
	}
	outages, down := x.engine.link.get()
	if down {
		return nil
	}
	if !x.end.fresh.reading.TryLock() {
		return errAgain // another worker reads them
	}
	defer x.end.fresh.reading.Unlock()
	if x.end.fresh.outages.Load() == outages {
		return errAgain
	}
	list := x.resource.Dependent.NewList()
	err := x.engine.options.Remote.List(ctx, list, &client.ListOptions{
		Namespace: x.in.Facts.RemoteNamespace, LabelSelector: x.engine.remoteSelector(x.resource),
	})
	x.observe(directionIn, "list", err)
	if err != nil {
		return fmt.Errorf("reading the remote objects of %s again after an outage: %w", x.resource.Name, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("reading the remote objects of %s again after an outage: %w", x.resource.Name, err)
	}
	objects := make([]any, 0, len(items))
	for _, item := range items {
		objects = append(objects, item)
	}
	if err := x.end.dependent.Replace(objects, list.GetResourceVersion()); err != nil {
		return fmt.Errorf("storing the remote objects of %s: %w", x.resource.Name, err)
	}
	x.end.fresh.outages.Store(outages)
	return errAgain
}
