package engine

import (
	"context"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Informers runs one informer for each selection of objects, for as long as it is used.
// Definitions that select the same objects share it, and so do engines with the same clusters, and
// the same rights there, that get the same Informers. It is safe for concurrent use.
type Informers struct {
	ctx   context.Context
	group sync.WaitGroup

	mu   sync.Mutex
	open map[informerKey]*informer
}

// selection says which objects of a cluster an informer holds.
type selection struct {
	client   client.WithWatch
	isRemote bool
	kind     Kind
	options  client.ListOptions
	// of are labels of the objects that one of several engines needs. They do not narrow what the
	// informer holds.
	of labels.Set
	// once lists the objects and does not watch them.
	once bool
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
	only *subscriber
}

// subscriber is called about the objects of a namespace, or of all for "".
type subscriber struct {
	namespace string
	// selects are labels that the objects have; nil for all objects.
	selects labels.Set
	// changed is called with each object that was added, changed or removed by another
	// writer.
	changed func(client.Object)
	// read is called with the result of each list, and with nil when a watch began. Optional.
	read func(error)
	// filled is called once, when the store has the objects. It must not block. Optional.
	filled func()
}

// informer watches one selection of objects.
type informer struct {
	key    informerKey
	store  *store
	cancel context.CancelFunc

	mu       sync.RWMutex
	isFilled bool
	// subscribers by namespace. A slice is replaced, never altered.
	subscribers map[string][]*subscriber
}

// NewInformers returns Informers whose watches end with the context.
func NewInformers(ctx context.Context) *Informers {
	return &Informers{ctx: ctx, open: map[informerKey]*informer{}}
}

// Wait waits for the end of all watches. It is called after the end of the context: engines that
// still run begin no further watches.
func (i *Informers) Wait() {
	// An engine that is beginning a watch has the lock.
	i.mu.Lock()
	i.mu.Unlock() //nolint:staticcheck // it protects nothing here
	i.group.Wait()
}

// listWatch returns what lists and watches the objects of a selection. All informers are filled
// through it.
//
// Objects that a field selector selects are listed before they are watched: an API server has an index of
// the pods of a node for lists. For the initial events of a watch it compares all pods of the cluster.
func (i *Informers) listWatch(s *selection) cache.ListerWatcherWithContext {
	var semantics any = s.client
	if s.options.FieldSelector != nil {
		semantics = listing{}
	}
	return cache.ToListerWatcherWithContext(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			list := s.kind.NewList()
			o := s.options
			o.Raw = &raw
			o.Limit, o.Continue = raw.Limit, raw.Continue
			return list, s.client.List(ctx, list, &o)
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			o := s.options
			o.Raw = &raw
			return s.client.Watch(ctx, s.kind.NewList(), &o)
		},
	}, semantics))
}

// listing makes a reflector list before it watches.
type listing struct{}

// IsWatchListSemanticsUnSupported is called by client-go's reflector.
func (listing) IsWatchListSemanticsUnSupported() bool { return true }

// follow returns the store of a selection and keeps it up to date until the context ends.
func (i *Informers) follow(ctx context.Context, s selection, by *subscriber) *store {
	used := i.acquire(&s, by)
	i.releaseAfter(ctx, []use{{used, by}})
	return used.store
}

// acquire returns the informer of a selection, which runs until its last subscriber releases it.
func (i *Informers) acquire(s *selection, by *subscriber) *informer {
	key := s.key
	if s.once {
		key.only = by
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	found := i.open[key]
	if found == nil {
		running, cancel := context.WithCancel(i.ctx)
		found = &informer{key: key, cancel: cancel, subscribers: map[string][]*subscriber{}}
		found.store = newStore(s.kind, found.changed)
		found.store.filled = found.filled
		i.open[key] = found
		follow := watchKind
		if s.once {
			follow = listKind
		}
		if source := i.listWatch(s); running.Err() == nil {
			i.group.Go(func() { follow(running, source, s.kind, found.store, found.read) })
		}
	}
	found.add(by)
	return found
}

// use is an informer and one of its subscribers. There is one for each virtual node, namespace,
// resource and kind.
type use struct {
	informer *informer
	by       *subscriber
}

// releaseAfter releases informers together when the context ends.
func (i *Informers) releaseAfter(ctx context.Context, uses []use) {
	context.AfterFunc(ctx, func() { i.releaseAll(uses) })
}

func (i *Informers) releaseAll(uses []use) {
	for _, u := range uses {
		i.release(u.informer, u.by)
	}
}

// release stops an informer that has no other subscriber.
func (i *Informers) release(used *informer, by *subscriber) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if used.remove(by) {
		used.cancel()
		delete(i.open, used.key)
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

// in returns the same selection in a namespace.
func (s *selection) in(namespace string) selection {
	within := *s
	within.options.Namespace, within.key.namespace = namespace, namespace
	return within
}

func (i *informer) add(s *subscriber) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.subscribers[s.namespace] = append(slices.Clone(i.subscribers[s.namespace]), s)
	if i.isFilled && s.filled != nil {
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
			if s.filled != nil {
				s.filled()
			}
		}
	}
}

// remove reports whether no subscriber is left.
func (i *informer) remove(s *subscriber) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(i.subscribers[s.namespace]), func(other *subscriber) bool { return other == s })
	if len(left) > 0 {
		i.subscribers[s.namespace] = left
	} else {
		delete(i.subscribers, s.namespace)
	}
	return len(i.subscribers) == 0
}

func (i *informer) of(namespace string) []*subscriber {
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
	isHandled := false
	for _, s := range subscribers {
		if hasLabels(object, s.selects) {
			isHandled = true
			s.changed(object)
		}
	}
	if !isHandled {
		// No engine asks about it, so that the store would remember it for ever.
		i.store.forgetLost(namespace, object.GetName())
	}
}

func (i *informer) read(err error) {
	i.mu.RLock()
	var all []*subscriber
	for _, subscribers := range i.subscribers {
		all = append(all, subscribers...)
	}
	i.mu.RUnlock()
	for _, s := range all {
		if s.read != nil {
			s.read(err)
		}
	}
}
