package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

// namespace is one mapped namespace that is being followed.
type namespace struct {
	local, remote string
	ctx           context.Context // it is the namespace's lifetime, which ends requests in flight
	cancel        context.CancelFunc
	// ends are those of the resources that are handled here; the engine's mutex guards
	// the map.
	ends map[*runner]*ends
}

// ends are the caches of one resource in one namespace. dependent is nil for most.
type ends struct {
	ctx    context.Context // its lifetime: that of the namespace, or of the leadership
	cancel context.CancelFunc
	// active is true once all caches are filled: no decision is taken on half a picture.
	active                   atomic.Bool
	local, remote, dependent *store
	related                  []*store
	// held says why they cannot be filled until somebody acts.
	held  held
	fresh freshness
}

// wake makes followNamespaces look at the NamespaceMap again.
func (e *Engine) wake() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// followNamespaces starts and stops namespaces until the context ends.
func (e *Engine) followNamespaces(ctx context.Context, group *sync.WaitGroup) {
	e.wake()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.kick:
			e.reconcileNamespaces(ctx, group)
			e.takeUp(group)
		}
	}
}

// reconcileNamespaces compares what is mapped with what is followed.
func (e *Engine) reconcileNamespaces(ctx context.Context, group *sync.WaitGroup) {
	log := logr.FromContextOrDiscard(ctx)
	wanted, ok := mapping(ctx, e.maps.List(""), e.followed())
	if ok && e.loses(wanted) {
		wanted, ok = e.readMapping(ctx)
	}
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for local, ns := range e.namespaces {
		if wanted[local] == ns.remote {
			continue
		}
		log.Info("Stopping the reflection of a namespace", "namespace", local, "remoteNamespace", ns.remote)
		ns.cancel()
		delete(e.namespaces, local)
		e.forgetNamespace(local)
	}
	taken := map[string]string{}
	for local, ns := range e.namespaces {
		taken[ns.remote] = local
	}
	for _, local := range sortedKeys(wanted) {
		remote := wanted[local]
		if e.namespaces[local] != nil {
			continue
		}
		if other, busy := taken[remote]; busy {
			// Both would see the other's objects as orphans and delete them (T75).
			log.Error(nil, "Two local namespaces are mapped to one remote namespace, only the first is reflected",
				"namespace", local, "remoteNamespace", remote, "reflected", other)
			continue
		}
		taken[remote] = local
		log.Info("Starting the reflection of a namespace", "namespace", local, "remoteNamespace", remote)
		e.namespaces[local] = e.startNamespace(ctx, group, local, remote)
	}
	e.settleLocked()
}

// followed returns local → remote of the namespaces that are reflected now.
func (e *Engine) followed() map[string]string {
	e.mu.RLock()
	defer e.mu.RUnlock()
	followed := make(map[string]string, len(e.namespaces))
	for local, ns := range e.namespaces {
		followed[local] = ns.remote
	}
	return followed
}

// mapping returns local → remote of the accepted namespaces. The provider writes the status,
// so an entry counts only if this cluster asked for it; one that is followed already goes on
// until the provider ends it. That the provider fails to restore a namespace ends nothing: its
// pods may run. Two maps for one provider are a mistake that cannot be
// resolved by guessing: what runs goes on as it is.
func mapping(ctx context.Context, objects []client.Object, followed map[string]string) (map[string]string, bool) {
	if len(objects) > 1 {
		logr.FromContextOrDiscard(ctx).Error(nil, "More than one NamespaceMap for the provider, changes are ignored until one is left")
		return nil, false
	}
	wanted := map[string]string{}
	for _, object := range objects {
		nm, ok := object.(*offloadingv1beta1.NamespaceMap)
		if !ok {
			continue
		}
		for local, status := range nm.Status.CurrentMapping {
			remote := status.RemoteNamespace
			if remote == "" {
				continue
			}
			isDesired, isFollowed := nm.Spec.DesiredMapping[local] == remote, followed[local] == remote
			isAccepted := status.Phase == offloadingv1beta1.MappingAccepted
			if isAccepted && (isDesired || isFollowed) || isFailing(nm, local) && isFollowed {
				wanted[local] = remote
			}
		}
	}
	return wanted, true
}

// isFailing reports whether a namespace is asked for, and the provider fails to create it or to
// restore what was changed of it.
func isFailing(nm *offloadingv1beta1.NamespaceMap, local string) bool {
	status, found := nm.Status.CurrentMapping[local]
	return found && status.Phase == offloadingv1beta1.MappingCreationLoopBackOff &&
		status.RemoteNamespace != "" && nm.Spec.DesiredMapping[local] == status.RemoteNamespace
}

// mappingFails is isFailing of the NamespaceMap in the cache.
func (e *Engine) mappingFails(local string) bool {
	for _, object := range e.maps.List("") {
		if nm, ok := object.(*offloadingv1beta1.NamespaceMap); ok && isFailing(nm, local) {
			return true
		}
	}
	return false
}

// startNamespace starts what every virtual kubelet handles in a namespace, and what the
// leader handles while this is one.
func (e *Engine) startNamespace(parent context.Context, group *sync.WaitGroup, local, remote string) *namespace {
	ctx, cancel := context.WithCancel(parent)
	ns := &namespace{local: local, remote: remote, ctx: ctx, cancel: cancel, ends: map[*runner]*ends{}}
	for _, r := range e.runners {
		if e.leading || !r.resource.LeaderOnly {
			ns.ends[r] = e.startEnds(group, ns, r)
		}
	}
	return ns
}

// startEnds acquires the informers of one resource in a namespace and activates it when all
// are filled.
func (e *Engine) startEnds(group *sync.WaitGroup, ns *namespace, r *runner) *ends {
	ctx, cancel := context.WithCancel(ns.ctx)
	end := &ends{ctx: ctx, cancel: cancel, local: r.local}
	end.startFresh(&e.link)
	var synced []<-chan struct{}
	follow := func(s selection, namespace string, changed func(client.Object)) *store {
		number := len(synced)
		into := e.informers.acquire(ctx, s, &subscriber{
			namespace: namespace,
			changed: func(object client.Object) {
				if end.active.Load() || end.held.cause() != "" {
					changed(object)
				}
			},
			read: func(err error) { r.read(ctx, ns, end, number, s.isRemote, err) },
		})
		synced = append(synced, into.synced)
		return into
	}
	fromRemote := func(object client.Object) {
		r.queue.Add(Key{Namespace: ns.local, Name: r.toLocal(object.GetName())})
	}
	end.remote = follow(r.remoteSelection(r.resource.Remote, ns.remote), ns.remote, fromRemote)
	if r.resource.Dependent != nil {
		end.dependent = follow(r.remoteSelection(*r.resource.Dependent, ns.remote), ns.remote, fromRemote)
	}
	if end.local == nil {
		end.local = follow(r.localSelection(ns.local), ns.local, func(object client.Object) {
			r.queue.AddTo(laneLocal, Key{Namespace: ns.local, Name: object.GetName()})
		})
	}
	for i := range r.resource.Related {
		related := &r.resource.Related[i]
		namespace := ns.local
		if related.Kind.ClusterScoped {
			namespace = ""
		}
		s := selection{client: e.options.Local, kind: related.Kind, options: client.ListOptions{FieldSelector: related.Fields}, user: r.user(related.Kind)}
		end.related = append(end.related, follow(s, namespace, func(object client.Object) {
			for _, name := range related.Keys(object, end.local.List(ns.local)) {
				r.queue.Add(Key{Namespace: ns.local, Name: name})
			}
		}))
	}
	group.Go(func() {
		if !waitFor(ctx, synced...) {
			return
		}
		end.active.Store(true)
		// Pods that were bound before their namespace was offloaded have no other event (T54).
		r.keys(ns, end, enqueue)
	})
	return end
}

// localSelection selects the local objects of the resource that a namespace needs.
func (r *runner) localSelection(namespace string) selection {
	options := client.ListOptions{FieldSelector: r.resource.LocalFields}
	if r.resource.LocalPerNamespace {
		options.Namespace = namespace
	}
	return selection{client: r.engine.options.Local, kind: r.resource.Local, options: options, user: r.user(r.resource.Local)}
}

// remoteSelection selects the objects of a kind in a namespace of the provider.
func (r *runner) remoteSelection(kind Kind, namespace string) selection {
	return selection{
		client: r.engine.options.Remote, isRemote: true, kind: kind, user: r.user(kind),
		options: client.ListOptions{Namespace: namespace, LabelSelector: r.engine.remoteSelector(r.resource)},
	}
}

func (r *runner) user(kind Kind) string {
	if kind.Trim == nil {
		return ""
	}
	return r.resource.Name
}

// remoteSelector selects what is ours in the provider, at the server.
func (e *Engine) remoteSelector(resource Resource) labels.Selector {
	set := labels.Set{
		offloadingv1beta1.OriginLabel:      e.options.HomeClusterID,
		offloadingv1beta1.DestinationLabel: e.options.ProviderClusterID,
	}
	return labels.SelectorFromSet(labels.Merge(set, resource.RemoteLabels))
}

// keys visits every object of a resource in a namespace, of both ends: what was deleted
// while nobody looked is found by its remote end.
func (r *runner) keys(ns *namespace, end *ends, visit func(*runner, Key)) {
	for _, name := range end.local.Names(ns.local) {
		visit(r, Key{Namespace: ns.local, Name: name.Name})
	}
	for _, name := range end.remote.Names("") {
		visit(r, Key{Namespace: ns.local, Name: r.toLocal(name.Name)})
	}
}

// enqueue is a visitor that enqueues.
func enqueue(r *runner, key Key) { r.queue.Add(key) }

// forgetNamespace makes the objects of a namespace that is no longer followed fall back.
func (e *Engine) forgetNamespace(local string) {
	for _, r := range e.runners {
		r.states.forgetNamespace(local)
		if r.local == nil {
			continue
		}
		for _, name := range r.local.Names(local) {
			r.queue.Add(Key{Namespace: local, Name: name.Name})
		}
	}
}

// settleLocked ends the start: pods of namespaces that are not mapped may now be told.
func (e *Engine) settleLocked() {
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

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
