package replication

import (
	"context"
	"errors"
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
	"k8s.io/client-go/util/watchlist"

	"github.com/longshore-dev/longshore/host/kit/remotecluster"
	"github.com/longshore-dev/longshore/host/kit/restore"
)

// MaxCopies limits what the replicator keeps of one kind of one provider, in bytes of JSON and valueCost for each of
// its values: a provider could send objects without end to the process that serves all of them. The largest
// NamespaceMap that an API server stores is 1.5 MiB with 12,000 values, and a ResourceSlice has 2 KiB.
const MaxCopies = 8 << 20

// valueCost is about what a value takes in memory beside its text, in bytes: an object of seven has a map of its own.
const valueCost = 350

// overflowPause is the time until objects are listed again that were more than their limit.
const overflowPause = time.Minute

// source is what a watch observes: a resource of a cluster, in one namespace or in all, and the
// objects that a label selector selects.
type source struct {
	client    dynamic.Interface
	resource  schema.GroupVersionResource
	namespace string
	selector  string
	// limit is the size of all objects at most (see MaxCopies); zero means no limit.
	limit int
}

// IsWatchListSemanticsUnSupported has the objects of another cluster listed before they are watched: of a watch
// that begins with all objects, client-go keeps the events without a limit until their end.
func (s source) IsWatchListSemanticsUnSupported() bool {
	return s.limit > 0 || watchlist.DoesClientNotSupportWatchListSemantics(s.client)
}

// objects has the objects of a source. It is the store of a client-go reflector: an informer of
// client-go takes twice the goroutines, and the replicator has three for each peer.
type objects struct {
	source source
	// changed is called with the name of an object that was observed, or is gone.
	changed func(cache.ObjectName)

	mu    sync.Mutex
	items map[cache.ObjectName]sized
	// size is that of all items, if there is a limit.
	size int
	// stop ends the list and watch that are under way. It is nil without one.
	stop context.CancelFunc
	// synced is closed when the first list is there.
	synced     chan struct{}
	syncedOnce sync.Once
	// err is the error of the last list or watch, or that of an overflow until a list is within the limit.
	err error
}

var _ cache.ReflectorStore = (*objects)(nil)

// sized is an object and its size, which is zero without a limit.
type sized struct {
	object *unstructured.Unstructured
	size   int
}

// overflowError is the error of objects that are more than their limit.
type overflowError struct {
	source source
	// problem is a predicate of the objects.
	problem string
}

// Error implements error.
func (e *overflowError) Error() string {
	return fmt.Sprintf("the %s in namespace %q with labels %s %s: delete there what is not needed",
		e.source.resource.GroupResource(), e.source.namespace, e.source.selector, e.problem)
}

func newObjects(s source, changed func(cache.ObjectName)) *objects {
	return &objects{source: s, changed: changed, items: map[cache.ObjectName]sized{}, synced: make(chan struct{})}
}

// run observes the objects until the context ends. If they are more than their limit, it forgets
// them, and lists them again after a pause.
func (o *objects) run(ctx context.Context, resync, pause time.Duration) {
	for ctx.Err() == nil {
		current, stop := context.WithCancel(ctx)
		o.mu.Lock()
		o.stop = stop
		o.mu.Unlock()
		o.observe(current, resync)
		stop()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// observe lists and watches until the context ends.
func (o *objects) observe(ctx context.Context, resync time.Duration) {
	client := o.source.client.Resource(o.source.resource).Namespace(o.source.namespace)
	observed := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = o.source.selector
			remotecluster.AskWhole(&options)
			list, err := client.List(ctx, options)
			if err == nil {
				err = remotecluster.CheckWhole(&options, list)
			}
			if tooLarge, ok := errors.AsType[*remotecluster.TooLargeError](err); ok {
				err = &overflowError{o.source, "cannot be read, since " + tooLarge.Error()}
			}
			return list, o.record(err)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = o.source.selector
			events, err := client.Watch(ctx, options)
			return events, o.record(err)
		},
	}, o.source)
	cache.NewReflector(restore.Detect(observed), &unstructured.Unstructured{}, o, resync).RunWithContext(ctx)
}

// record keeps the error of the last list or watch. That of an overflow stays until a list is within
// the limit.
func (o *objects) record(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || !isOverflow(o.err) {
		o.err = err
	}
	return err
}

func isOverflow(err error) bool {
	var overflow *overflowError
	return errors.As(err, &overflow)
}

// lastError returns the error of the last list or watch, or nil.
func (o *objects) lastError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// hasSynced reports whether the objects are those of a list, and of what was observed since.
func (o *objects) hasSynced() bool {
	select {
	case <-o.synced:
		return !isOverflow(o.lastError())
	default:
		return false
	}
}

// find returns a copy of an object, or nil.
func (o *objects) find(namespace, name string) *unstructured.Unstructured {
	o.mu.Lock()
	defer o.mu.Unlock()
	if found, exists := o.items[cache.ObjectName{Namespace: namespace, Name: name}]; exists {
		return found.object.DeepCopy()
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
	size := o.size - o.items[name].size + observed.size
	if o.exceeds(size) {
		return o.overflow()
	}
	o.items[name], o.size = observed, size
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
	o.size -= o.items[name].size
	delete(o.items, name)
	o.mu.Unlock()
	o.changed(name)
	return nil
}

// Replace implements cache.ReflectorStore.
func (o *objects) Replace(list []any, _ string) error {
	items, size := make(map[cache.ObjectName]sized, len(list)), 0
	for _, object := range list {
		name, observed, err := o.parse(object)
		if err != nil {
			return err
		}
		items[name] = observed
		size += observed.size
	}
	o.mu.Lock()
	if o.exceeds(size) {
		return o.overflow()
	}
	before := o.items
	o.items, o.size = items, size
	if isOverflow(o.err) {
		o.err = nil
	}
	o.mu.Unlock()
	o.syncedOnce.Do(func() { close(o.synced) })
	for name := range items {
		o.changed(name)
	}
	for name := range before {
		if _, exists := items[name]; !exists {
			o.changed(name)
		}
	}
	return nil
}

// exceeds reports whether objects of this size are more than their limit.
func (o *objects) exceeds(size int) bool { return o.source.limit > 0 && size > o.source.limit }

// overflow forgets the objects, which are more than their limit, and stops observing them. It
// releases the lock, which must be held.
func (o *objects) overflow() error {
	before := o.items
	o.items, o.size = map[cache.ObjectName]sized{}, 0
	o.err = &overflowError{o.source, fmt.Sprintf("have more than %d MiB", o.source.limit>>20)}
	if o.stop != nil {
		o.stop()
	}
	err := o.err
	o.mu.Unlock()
	for name := range before {
		o.changed(name)
	}
	return err
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
func (o *objects) parse(object any) (cache.ObjectName, sized, error) {
	observed, ok := object.(*unstructured.Unstructured)
	if !ok {
		return cache.ObjectName{}, sized{}, fmt.Errorf("storing %s: unexpected object %T", o.source.resource.GroupResource(), object)
	}
	name := cache.MetaObjectToName(observed)
	if metadata, ok := observed.Object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		observed = &unstructured.Unstructured{Object: maps.Clone(observed.Object)}
		observed.Object["metadata"] = metadata
	}
	if o.source.limit == 0 {
		return name, sized{object: observed}, nil
	}
	content, err := observed.MarshalJSON()
	if err != nil {
		return name, sized{}, fmt.Errorf("storing %s %s: %w", o.source.resource.GroupResource(), name, err)
	}
	return name, sized{object: observed, size: len(content) + valueCost*countValues(observed.Object)}, nil
}

// countValues counts the values in a value of JSON, and itself.
func countValues(value any) int {
	count := 1
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			count += countValues(member)
		}
	case []any:
		for _, item := range v {
			count += countValues(item)
		}
	}
	return count
}
