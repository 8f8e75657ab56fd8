package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// namespace is a mapped namespace that is reflected.
type namespace struct {
	local, remote string
	ctx           context.Context // the namespace's lifetime; its end cancels requests
	cancel        context.CancelFunc
	// isWithdrawn is set once the namespace is no longer requested: what runs there ends, and nothing new
	// is sent.
	isWithdrawn atomic.Bool
	// isEnding is set while the provider deletes the remote namespace although it is requested.
	isEnding atomic.Bool
	// caches of the resources that are reflected here; the engine's mutex guards the map.
	caches map[*runner]*namespaceCaches
}

// target is where a local namespace is reflected to.
type target struct {
	remote string
	// isWithdrawn is true for a namespace that is no longer requested, and that the provider has not
	// ended yet.
	isWithdrawn bool
	// isEnding is true for a namespace that the provider deletes although it is requested.
	isEnding bool
}

// namespaceCaches are the caches of one resource in one namespace. dependent is nil for
// most.
type namespaceCaches struct {
	runner *runner
	ns     *namespace
	ctx    context.Context // the lifetime: that of the namespace, or of the leadership
	// cancel ends the lifetime of a resource with LeaderOnly; nil for the others. A context of their own
	// takes more memory than all else that a resource in a namespace without objects needs.
	cancel context.CancelFunc
	// unfilled is the number of caches that are not filled yet.
	unfilled atomic.Int32
	// active is true once all caches are filled. Decisions need all of them.
	active                   atomic.Bool
	local, remote, dependent *store
	related                  []*store
	// uses are the informers of the caches; the engine's mutex guards them.
	uses       []use
	readErrors readErrors
}

// isHeard reports whether changes of objects matter: decisions are made, or their lack is reported.
func (c *namespaceCaches) isHeard() bool { return c.active.Load() || c.readErrors.cause() != "" }

// filled records that one of the caches is filled.
func (c *namespaceCaches) filled() {
	if c.unfilled.Add(-1) == 0 {
		c.runner.engine.filled.add(c)
	}
}

// wake triggers reconcileNamespaces.
func (e *Engine) wake() { signal(e.kick) }

// followNamespaces starts and stops namespaces until the context ends.
func (e *Engine) followNamespaces(ctx context.Context, group *sync.WaitGroup) {
	e.wake()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.kick:
			e.reconcileNamespaces(ctx, group)
			e.startLeaderOnly(ctx, group)
		case <-e.filled.kick:
			for _, caches := range e.filled.take() {
				caches.activate()
			}
		}
	}
}

// filledCaches are the caches that followNamespaces activates next. There are too many for a
// goroutine that waits for each.
type filledCaches struct {
	kick chan struct{}

	mu  sync.Mutex
	all []*namespaceCaches
}

func (f *filledCaches) add(caches *namespaceCaches) {
	f.mu.Lock()
	f.all = append(f.all, caches)
	f.mu.Unlock()
	signal(f.kick)
}

func (f *filledCaches) take() []*namespaceCaches {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.all
	f.all = nil
	return all
}

func signal(kick chan struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}

// reconcileNamespaces starts and stops the reflection of namespaces as they are mapped.
func (e *Engine) reconcileNamespaces(ctx context.Context, group *sync.WaitGroup) {
	log := logr.FromContextOrDiscard(ctx)
	wanted, ok := mapping(ctx, e.maps.List(""), e.followed())
	if ok && e.wouldStop(wanted) {
		wanted, ok = e.readMapping(ctx)
	}
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endUnwanted(log, wanted)
	taken := map[string]string{}
	for local, ns := range e.namespaces {
		taken[ns.remote] = local
	}
	started := 0
	for _, local := range sortedKeys(wanted) {
		remote := wanted[local].remote
		if e.namespaces[local] != nil {
			continue
		}
		if other, busy := taken[remote]; busy {
			// Each would delete the objects of the other as orphans.
			log.Error(nil, "Two local namespaces are mapped to one remote namespace, reflecting only the first",
				"namespace", local, "remoteNamespace", remote, "reflected", other)
			continue
		}
		taken[remote] = local
		log.V(1).Info("Starting the reflection of a namespace", "namespace", local, "remoteNamespace", remote)
		e.namespaces[local] = e.startNamespace(ctx, group, local, wanted[local])
		started++
	}
	if started > 0 {
		// A process with many virtual nodes would write a line for each, and each of their namespaces.
		log.Info("Started the reflection of namespaces", "started", started, "reflected", len(e.namespaces))
	}
	e.markSettledLocked()
}

// endUnwanted stops the namespaces that are no longer mapped, withdraws those that are no longer
// requested, and sends nothing to those that the provider deletes. One that is requested again, or created
// again, is stopped, to begin anew: what was not sent meanwhile is decided again. The caller holds the lock.
func (e *Engine) endUnwanted(log logr.Logger, wanted map[string]target) {
	for local, ns := range e.namespaces {
		to := wanted[local]
		switch {
		case to.remote == ns.remote && to.isWithdrawn:
			if !ns.isWithdrawn.Swap(true) {
				log.Info("A namespace is no longer offloaded, nothing new is sent", "namespace", local, "remoteNamespace", ns.remote)
				e.requeueNamespace(local)
			}
		case to.remote == ns.remote && to.isEnding && !ns.isWithdrawn.Load():
			if !ns.isEnding.Swap(true) {
				log.Info("The provider deletes a remote namespace, nothing new is sent", "namespace", local, "remoteNamespace", ns.remote)
				e.requeueNamespace(local)
			}
		case to.remote != ns.remote || ns.isWithdrawn.Load() || ns.isEnding.Load():
			log.Info("Stopping the reflection of a namespace", "namespace", local, "remoteNamespace", ns.remote)
			e.stopNamespace(ns)
			delete(e.namespaces, local)
			// What is remembered of the pods of a remote namespace that is created again stays, such as restarts.
			if to.remote != ns.remote || ns.isWithdrawn.Load() {
				e.dropNamespace(local)
			}
		}
	}
}

// followed returns the reflected namespaces, local → remote.
func (e *Engine) followed() map[string]string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.followedLocked()
}

func (e *Engine) followedLocked() map[string]string {
	followed := make(map[string]string, len(e.namespaces))
	for local, ns := range e.namespaces {
		followed[local] = ns.remote
	}
	return followed
}

// mapping returns the accepted namespaces, by their local names. The provider writes the status, so
// an entry must also be in the spec; a followed namespace that is not is withdrawn until the provider
// ends it. A followed namespace that is still requested continues too if the provider fails to restore
// it, deletes it to create it again, reports it under another name, or does not report it because it was
// restored from a backup: its pods may run. With two maps for one provider, ok is false and the current mapping stays in force.
func mapping(ctx context.Context, objects []client.Object, followed map[string]string) (map[string]target, bool) {
	if len(objects) > 1 {
		logr.FromContextOrDiscard(ctx).Error(nil, "More than one NamespaceMap for the provider, changes are ignored until one is left")
		return nil, false
	}
	wanted := map[string]target{}
	for _, object := range objects {
		nm, ok := object.(*offloadingv1beta1.NamespaceMap)
		if !ok {
			continue
		}
		for local, status := range nm.Status.CurrentMapping {
			remote := status.RemoteNamespace
			isRequested := nm.Spec.DesiredMapping[local] == remote
			if status.IsAccepted() && (isRequested || followed[local] == remote) {
				wanted[local] = target{remote: remote, isWithdrawn: !isRequested, isEnding: isRequested && status.IsEnding()}
			}
		}
		for local, remote := range followed {
			if isFailing(nm, local) && nm.Spec.DesiredMapping[local] == remote {
				status := nm.Status.CurrentMapping[local]
				isEnding := status.RemoteNamespace == remote && status.Phase == offloadingv1beta1.MappingTerminating
				wanted[local] = target{remote: remote, isEnding: isEnding}
			}
		}
	}
	return wanted, true
}

// isFailing reports whether a namespace is requested and the provider does not report it as accepted, under
// the requested name.
func isFailing(nm *offloadingv1beta1.NamespaceMap, local string) bool {
	remote, isRequested := nm.Spec.DesiredMapping[local]
	return isRequested && !isAcceptedAs(nm, local, remote)
}

func isAcceptedAs(nm *offloadingv1beta1.NamespaceMap, local, remote string) bool {
	status := nm.Status.CurrentMapping[local]
	return status.IsAccepted() && status.RemoteNamespace == remote
}

// request reports whether the provider fails to create or restore a requested namespace that is not mapped,
// and whether it has accepted it meanwhile.
func request(maps []client.Object, local string) (fails, starts bool) {
	for _, object := range maps {
		nm, ok := object.(*offloadingv1beta1.NamespaceMap)
		if !ok {
			continue
		}
		remote, isRequested := nm.Spec.DesiredMapping[local]
		fails = fails || isFailing(nm, local)
		starts = starts || isRequested && isAcceptedAs(nm, local, remote)
	}
	return fails, starts
}

// startNamespace starts the reflection of a namespace, with the resources of the leader if
// this engine leads.
func (e *Engine) startNamespace(parent context.Context, group *sync.WaitGroup, local string, to target) *namespace {
	ctx, cancel := context.WithCancel(parent)
	ns := &namespace{local: local, remote: to.remote, ctx: ctx, cancel: cancel, caches: map[*runner]*namespaceCaches{}}
	ns.isEnding.Store(to.isEnding)
	for _, r := range e.runners {
		if e.leading || !r.resource.LeaderOnly {
			r.start(parent, group)
			if !e.mustWait(ns, r) {
				ns.caches[r] = e.startCaches(ns, r)
			}
		}
	}
	return ns
}

// stopNamespace cancels the requests of a namespace and releases its informers. The caller holds the lock.
func (e *Engine) stopNamespace(ns *namespace) {
	ns.cancel()
	for _, caches := range ns.caches {
		e.release(caches)
	}
}

// stopNamespaces stops all namespaces when the engine ends.
func (e *Engine) stopNamespaces() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ns := range e.namespaces {
		e.stopNamespace(ns)
	}
}

// release releases the informers of caches. The caller holds the lock.
func (e *Engine) release(caches *namespaceCaches) {
	for _, used := range caches.uses {
		e.informers.release(used)
	}
	caches.uses = nil
}

// mustWait reports whether a resource waits for another one in a namespace. The caller holds the lock.
func (e *Engine) mustWait(ns *namespace, r *runner) bool {
	if r.resource.After == "" {
		return false
	}
	for _, first := range e.runners {
		if first.resource.Name == r.resource.After {
			caches := ns.caches[first]
			return caches == nil || !caches.active.Load()
		}
	}
	return false
}

// startLater starts the resources that waited for another one, which is active now.
func (e *Engine) startLater(ns *namespace, first *runner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ns.ctx.Err() != nil {
		return
	}
	for _, r := range e.runners {
		if r.resource.After == first.resource.Name && ns.caches[r] == nil && (e.leading || !r.resource.LeaderOnly) {
			ns.caches[r] = e.startCaches(ns, r)
		}
	}
}

// noObjects is the local cache of resources without one.
var noObjects = newStore(Kind{}, nil)

// startCaches opens the informers of one resource in a namespace, and activates it when all
// are filled.
func (e *Engine) startCaches(ns *namespace, r *runner) *namespaceCaches {
	caches := &namespaceCaches{runner: r, ns: ns, ctx: ns.ctx, local: r.local}
	if r.resource.LeaderOnly {
		caches.ctx, caches.cancel = context.WithCancel(ns.ctx)
	}
	s := &r.selections
	caches.uses = make([]use, 0, 3+len(s.related))
	open := func(f *followed) *store {
		used := e.informers.open(&f.selection, f.namespaceIn(ns), subscriber{&f.role, caches})
		caches.uses = append(caches.uses, used)
		return used.informer.store
	}
	caches.remote = open(&s.remote)
	if r.resource.Dependent != nil {
		caches.dependent = open(&s.dependent)
	}
	switch {
	case r.resource.LocalUnwatched:
		caches.local = noObjects
	case caches.local == nil:
		caches.local = open(&s.local)
	}
	for i := range s.related {
		caches.related = append(caches.related, open(&s.related[i]))
	}
	// Informers call at once, and need all that is set above.
	caches.unfilled.Store(int32(len(caches.uses)))
	for _, used := range caches.uses {
		e.informers.start(used)
	}
	return caches
}

// activate begins decisions when all caches are filled.
func (c *namespaceCaches) activate() {
	if c.ctx.Err() != nil {
		return
	}
	c.active.Store(true)
	// Pods that were bound before their namespace was offloaded have no other event.
	c.runner.visitKeys(c.ns, c, func(r *runner, key Key) { r.queue.AddTo(laneBackground, key) })
	c.runner.engine.startLater(c.ns, c.runner)
}

// visitKeys calls visit with the key of each local and each remote object of a resource in
// a namespace. The remote objects include those whose local object was deleted unnoticed.
func (r *runner) visitKeys(ns *namespace, caches *namespaceCaches, visit func(*runner, Key)) {
	for _, name := range caches.local.Names(ns.local) {
		visit(r, Key{Namespace: ns.local, Name: name.Name})
	}
	for _, name := range caches.remote.Names("") {
		visit(r, Key{Namespace: ns.local, Name: r.toLocal(name.Name, func() metav1.Object {
			if object := caches.remote.Get(name.Namespace, name.Name); object != nil {
				return object
			}
			return nil
		})})
	}
}

// countReflected counts a reconciliation, in reflected namespaces only: the series of the others
// are deleted, under the lock that is held here.
func (e *Engine) countReflected(local, resource string, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.namespaces[local] != nil {
		e.metrics.liqo.Count(local, resource, err)
	}
}

// dropNamespace requeues the objects of a namespace that is no longer reflected.
func (e *Engine) dropNamespace(local string) {
	for _, r := range e.runners {
		e.metrics.liqo.Forget(local, r.resource.Name)
		r.states.dropNamespace(local)
	}
	e.requeueNamespace(local)
}

// requeueNamespace requeues the local objects of a namespace, of resources that decide about namespaces
// that are not offloaded as well: pods.
func (e *Engine) requeueNamespace(local string) {
	for _, r := range e.runners {
		if r.local == nil {
			continue
		}
		for _, name := range r.local.Names(local) {
			r.queue.Add(Key{Namespace: local, Name: name.Name})
		}
	}
}

// markSettledLocked records that the mapped namespaces are known, and enqueues the objects
// of the others.
func (e *Engine) markSettledLocked() {
	if e.settled {
		return
	}
	e.settled = true
	for _, r := range e.runners {
		if r.local == nil {
			continue
		}
		for _, name := range r.local.Names("") {
			if e.namespaces[name.Namespace] == nil {
				r.queue.Add(Key{Namespace: name.Namespace, Name: name.Name})
			}
		}
	}
}

func sortedKeys(m map[string]target) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
