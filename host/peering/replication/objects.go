package replication

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/longshore-dev/longshore/host/kit/restore"
)

// source is what a watch observes: a resource of a cluster, in one namespace or in all, and the
// objects that a label selector selects.
type source struct {
	client    dynamic.Interface
	resource  schema.GroupVersionResource
	namespace string
	selector  string
}

// objects has the objects of a source. It is the store of a client-go reflector: an informer of
// client-go takes twice the goroutines, and the replicator has three for each peer.
type objects struct {
	source source
	// changed is called with the name of an object that was observed, or is gone.
	changed func(cache.ObjectName)

	mu    sync.Mutex
	items map[cache.ObjectName]*unstructured.Unstructured
	// synced is closed when the first list is there.
	synced chan struct{}
	// err is the error of the last list or watch.
	err error
}

var _ cache.ReflectorStore = (*objects)(nil)

func newObjects(s source, changed func(cache.ObjectName)) *objects {
	return &objects{source: s, changed: changed, items: map[cache.ObjectName]*unstructured.Unstructured{}, synced: make(chan struct{})}
}

// run observes the objects until the context ends.
func (o *objects) run(ctx context.Context, resync time.Duration) {
	client := o.source.client.Resource(o.source.resource).Namespace(o.source.namespace)
	observed := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = o.source.selector
			list, err := client.List(ctx, options)
			return list, o.record(err)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = o.source.selector
			events, err := client.Watch(ctx, options)
			return events, o.record(err)
		},
	}, o.source.client)
	cache.NewReflector(restore.Detect(observed), &unstructured.Unstructured{}, o, resync).RunWithContext(ctx)
}

// record keeps the error of the last list or watch.
func (o *objects) record(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
	return err
}

// lastError returns the error of the last list or watch, or nil.
func (o *objects) lastError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// hasSynced reports whether the first list is there.
func (o *objects) hasSynced() bool {
	select {
	case <-o.synced:
		return true
	default:
		return false
	}
}

// find returns a copy of an object, or nil.
func (o *objects) find(namespace, name string) *unstructured.Unstructured {
	o.mu.Lock()
	defer o.mu.Unlock()
	if found := o.items[cache.ObjectName{Namespace: namespace, Name: name}]; found != nil {
		return found.DeepCopy()
	}
	return nil
}

// names returns the names of the objects in a namespace.
func (o *objects) names(namespace string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var names []string
	for name := range o.items {
		if name.Namespace == namespace {
			names = append(names, name.Name)
		}
	}
	return names
}

// Add implements cache.ReflectorStore.
func (o *objects) Add(object any) error { return o.Update(object) }

// Update implements cache.ReflectorStore.
func (o *objects) Update(object any) error {
	name, observed, err := o.parse(object)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.items[name] = observed
	o.mu.Unlock()
	o.changed(name)
	return nil
}

// Delete implements cache.ReflectorStore.
func (o *objects) Delete(object any) error {
	name, _, err := o.parse(object)
	if err != nil {
		return err
	}
	o.mu.Lock()
	delete(o.items, name)
	o.mu.Unlock()
	o.changed(name)
	return nil
}

// Replace implements cache.ReflectorStore.
func (o *objects) Replace(list []any, _ string) error {
	items := make(map[cache.ObjectName]*unstructured.Unstructured, len(list))
	for _, object := range list {
		name, observed, err := o.parse(object)
		if err != nil {
			return err
		}
		items[name] = observed
	}
	o.mu.Lock()
	before := o.items
	o.items = items
	o.mu.Unlock()
	if !o.hasSynced() {
		close(o.synced)
	}
	for name := range items {
		o.changed(name)
	}
	for name := range before {
		if items[name] == nil {
			o.changed(name)
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore: every object is replicated again.
func (o *objects) Resync() error {
	o.mu.Lock()
	names := make([]cache.ObjectName, 0, len(o.items))
	for name := range o.items {
		names = append(names, name)
	}
	o.mu.Unlock()
	for _, name := range names {
		o.changed(name)
	}
	return nil
}

// parse returns an object without its managed fields, which are not replicated. An update without
// them keeps those of the API server. The object of the watch is not changed: others may have it.
func (o *objects) parse(object any) (cache.ObjectName, *unstructured.Unstructured, error) {
	observed, ok := object.(*unstructured.Unstructured)
	if !ok {
		return cache.ObjectName{}, nil, fmt.Errorf("storing %s: unexpected object %T", o.source.resource.GroupResource(), object)
	}
	name := cache.MetaObjectToName(observed)
	metadata, ok := observed.Object["metadata"].(map[string]any)
	if !ok {
		return name, observed, nil
	}
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	observed = &unstructured.Unstructured{Object: maps.Clone(observed.Object)}
	observed.Object["metadata"] = metadata
	return name, observed, nil
}
