package engine

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informers runs one informer for each selection of objects, for as long as it is used.
// Definitions that select the same objects share it.
type informers struct {
	ctx   context.Context //nolint:containedctx // the lifetime of all informers
	group *sync.WaitGroup

	mu   sync.Mutex
	open map[informerKey]*informer
}

// selection says which objects of a cluster an informer holds.
type selection struct {
	client   client.WithWatch
	isRemote bool
	kind     Kind
	options  client.ListOptions
	// once lists the objects and does not watch them.
	once bool
	// user is the name of the resource if its definition trims the objects: others need
	// them whole.
	user string
}

// informerKey identifies a selection.
type informerKey struct {
	isRemote, once                  bool
	kind                            schema.GroupVersionKind
	namespace, labels, fields, user string
}

// subscriber is called about the objects of a namespace, or of all for "".
type subscriber struct {
	namespace string
	// changed is called with each object that was added, changed or removed by another
	// writer.
	changed func(client.Object)
	// read is called with the result of each list, and with nil when a watch began. Optional.
	read func(error)
}

// informer watches one selection of objects.
type informer struct {
	store  *store
	cancel context.CancelFunc

	mu sync.RWMutex
	// subscribers by namespace. A slice is replaced, never altered.
	subscribers map[string][]*subscriber
}

func newInformers(ctx context.Context, group *sync.WaitGroup) *informers {
	return &informers{ctx: ctx, group: group, open: map[informerKey]*informer{}}
}

// acquire returns the store of a selection and keeps it up to date until the context ends.
func (i *informers) acquire(ctx context.Context, s selection, by *subscriber) *store {
	key := s.key()
	i.mu.Lock()
	defer i.mu.Unlock()
	found := i.open[key]
	if found == nil {
		running, cancel := context.WithCancel(i.ctx)
		found = &informer{cancel: cancel, subscribers: map[string][]*subscriber{}}
		found.store = newStore(s.kind.Trim, found.changed)
		i.open[key] = found
		follow := watchKind
		if s.once {
			follow = listKind
		}
		i.group.Go(func() { follow(running, s.client, s.kind, s.options, found.store, found.read) })
	}
	found.add(by)
	context.AfterFunc(ctx, func() { i.release(key, by) })
	return found.store
}

// release stops an informer that has no other subscriber.
func (i *informers) release(key informerKey, by *subscriber) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if found := i.open[key]; found.remove(by) {
		found.cancel()
		delete(i.open, key)
	}
}

func (s *selection) key() informerKey {
	kind, _ := s.client.GroupVersionKindFor(s.kind.New()) // New has checked the kinds
	key := informerKey{isRemote: s.isRemote, once: s.once, kind: kind, namespace: s.options.Namespace, user: s.user}
	if s.options.LabelSelector != nil {
		key.labels = s.options.LabelSelector.String()
	}
	if s.options.FieldSelector != nil {
		key.fields = s.options.FieldSelector.String()
	}
	return key
}

func (i *informer) add(s *subscriber) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.subscribers[s.namespace] = append(slices.Clone(i.subscribers[s.namespace]), s)
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
	for _, s := range i.of(namespace) {
		s.changed(object)
	}
	if namespace == "" {
		return
	}
	for _, s := range i.of("") {
		s.changed(object)
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
