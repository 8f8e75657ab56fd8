package engine

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informers runs one informer for each selection of objects, for as long as it is used.
// Definitions that select the same objects share it. It is safe for concurrent use.
type informers struct {
	ctx   context.Context
	group sync.WaitGroup
	// later limits how fast the informers of resources with After begin.
	later *rate.Limiter

	mu     sync.Mutex
	opened map[informerKey]*informer
	// room is that of all objects of the provider.
	room *room
}

// selection says which objects of a cluster an informer holds.
type selection struct {
	client   client.WithWatch
	isRemote bool
	kind     Kind
	options  client.ListOptions
	// once lists the objects and does not watch them.
	once bool
	// isLater is set for the objects of a resource with After. Of resources that share an informer, the
	// first one decides.
	isLater bool
	// user is the name of the resource if its definition trims the objects: others need
	// them whole.
	user string
	// key is set by identified.
	key informerKey
}

// informerKey identifies a selection.
type informerKey struct {
	isRemote, once                  bool
	kind                            schema.GroupVersionKind
	namespace, labels, fields, user string
	// only is set for a selection that is listed once: a later subscriber needs a new list.
	only subscriber
}

// role is what the subscribers of a resource for one kind have in common in all namespaces.
type role struct {
	// number is that of the kind among those of the resource.
	number int
	// isRemote is set for objects of the remote namespace, isOfCluster for objects without a namespace.
	isRemote, isOfCluster bool
	// hearsWrites is set for objects that another resource of this process writes.
	hearsWrites bool
	// changed is called with each object that was added, changed or removed by another
	// writer.
	changed func(*namespaceCaches, client.Object)
}

// subscriber is called about the objects of a namespace, or of all. There is one for each namespace,
// resource and kind, so that it has no fields of its own.
type subscriber struct {
	*role
	// caches are nil for a subscriber of all namespaces. Those of one are called also when a store is filled,
	// and with the result of each list, or nil when a watch began.
	caches *namespaceCaches
}

// namespace returns the namespace of the objects, or "" for all.
func (s *subscriber) namespace() string {
	switch {
	case s.caches == nil || s.isOfCluster:
		return ""
	case s.isRemote:
		return s.caches.ns.remote
	default:
		return s.caches.ns.local
	}
}

func (s *subscriber) filled() {
	if s.caches != nil {
		s.caches.filled()
	}
}

func (s *subscriber) read(err error) {
	if s.caches != nil {
		s.caches.runner.observeRead(s, err)
	}
}

// informer watches one selection of objects.
type informer struct {
	key   informerKey
	store *store
	// users and run belong to informers. run begins the watch; nil once it has.
	users  int
	run    func()
	cancel context.CancelFunc

	mu       sync.RWMutex
	isFilled bool
	// subscribers by namespace. Readers have slices of it, whose elements are never altered.
	subscribers map[string][]subscriber
}

// Resources with After are read at this rate: after a restart, the lists for hundreds of namespaces would
// otherwise take a second of the API server's time while the status of pods waits for it. A namespace that
// is mapped later does not wait.
const (
	laterPerSecond = 30
	laterBurst     = 10
)

// newInformers returns informers whose watches end with the context.
func newInformers(ctx context.Context, later *rate.Limiter) *informers {
	return &informers{ctx: ctx, later: later, opened: map[informerKey]*informer{}, room: newRoom(memoryLimit())}
}

// wait waits for the end of all watches. It is called after the end of the context: the engine begins no
// further watches.
func (i *informers) wait() {
	// A goroutine that is beginning a watch has the lock.
	i.mu.Lock()
	i.mu.Unlock() //nolint:staticcheck // it protects nothing here
	i.group.Wait()
}

// follow returns the store of a selection and keeps it up to date until the context ends.
func (i *informers) follow(ctx context.Context, s *selection, changed func(client.Object)) *store {
	used := i.open(s, s.options.Namespace, subscriber{role: &role{changed: func(_ *namespaceCaches, object client.Object) { changed(object) }}})
	i.start(used)
	context.AfterFunc(ctx, func() { i.release(used) })
	return used.informer.store
}

// use is an informer and one of its subscribers.
type use struct {
	informer *informer
	by       subscriber
}

// open returns the informer of a selection in a namespace, or in all for "". Until start, a new informer
// does not run, and the subscriber is not called: its caches, which hold the stores, are incomplete.
func (i *informers) open(s *selection, namespace string, by subscriber) use {
	key := s.key
	key.namespace = namespace
	if s.once {
		key.only = by
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	found := i.opened[key]
	if found == nil {
		found = i.newInformer(s, key)
		i.opened[key] = found
	}
	found.users++
	return use{found, by}
}

func (i *informers) newInformer(s *selection, key informerKey) *informer {
	within := *s
	within.options.Namespace, within.key = key.namespace, key
	running, cancel := context.WithCancel(i.ctx)
	added := &informer{key: key, cancel: cancel, subscribers: map[string][]subscriber{}}
	added.store = newStore(s.kind, added.changed)
	added.store.filled, added.store.wrote = added.filled, added.wrote
	if s.isRemote {
		added.store.room = i.room
	}
	fill := watchSelected
	if within.once {
		fill = listSelected
	}
	added.run = func() {
		if running.Err() != nil {
			return
		}
		i.group.Go(func() {
			defer func() { context.AfterFunc(running, added.store.leaveRoom) }() // A list that is read once is kept.
			if !within.isLater || i.later.Wait(running) == nil {
				fill(running, &within, added.store, added.read)
			}
		})
	}
	return added
}

// start begins to call the subscriber of an opened informer, which runs until its last user releases it.
func (i *informers) start(u use) {
	u.informer.add(u.by)
	i.mu.Lock()
	defer i.mu.Unlock()
	if run := u.informer.run; run != nil {
		u.informer.run = nil
		run()
	}
}

// release ends the calls of a subscriber, and stops an informer that has no other user.
func (i *informers) release(u use) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u.informer.remove(u.by)
	if u.informer.users--; u.informer.users == 0 {
		u.informer.cancel()
		delete(i.opened, u.informer.key)
	}
}

// identified returns a selection with its key.
func identified(s selection) selection {
	kind, _ := s.client.GroupVersionKindFor(s.kind.New()) // New has checked the kinds
	s.key = informerKey{isRemote: s.isRemote, once: s.once, kind: kind, namespace: s.options.Namespace, user: s.user}
	if s.options.LabelSelector != nil {
		s.key.labels = s.options.LabelSelector.String()
	}
	if s.options.FieldSelector != nil {
		s.key.fields = s.options.FieldSelector.String()
	}
	return s
}

func (i *informer) add(s subscriber) {
	i.mu.Lock()
	defer i.mu.Unlock()
	namespace := s.namespace()
	i.subscribers[namespace] = append(i.subscribers[namespace], s)
	if i.isFilled {
		s.filled()
	}
}

// filled is called by the store when it has the objects.
func (i *informer) filled() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.isFilled = true
	for _, subscribers := range i.subscribers {
		for _, s := range subscribers {
			s.filled()
		}
	}
}

func (i *informer) remove(s subscriber) {
	i.mu.Lock()
	defer i.mu.Unlock()
	namespace := s.namespace()
	left := slices.DeleteFunc(slices.Clone(i.subscribers[namespace]), func(other subscriber) bool { return other == s })
	if len(left) > 0 {
		i.subscribers[namespace] = left
	} else {
		delete(i.subscribers, namespace)
	}
}

func (i *informer) of(namespace string) []subscriber {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.subscribers[namespace]
}

func (i *informer) changed(object client.Object) {
	namespace := object.GetNamespace()
	subscribers := i.of(namespace)
	if namespace != "" {
		subscribers = slices.Concat(subscribers, i.of(""))
	}
	for _, s := range subscribers {
		s.changed(s.caches, object)
	}
	if len(subscribers) == 0 {
		// Nothing asks about it, so that the store would remember it for ever.
		i.store.forgetLost(namespace, object.GetName())
	}
}

// wrote is called by the store with the answer to a write of this process.
func (i *informer) wrote(object client.Object) {
	for _, s := range i.of(object.GetNamespace()) {
		if s.hearsWrites {
			s.changed(s.caches, object)
		}
	}
}

func (i *informer) read(err error) {
	i.mu.RLock()
	var all []subscriber
	for _, subscribers := range i.subscribers {
		all = append(all, subscribers...)
	}
	i.mu.RUnlock()
	for _, s := range all {
		s.read(err)
	}
}
