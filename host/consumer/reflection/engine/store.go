package engine

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store is the cache of one informer: what a reflector has seen, and what we have
// written ourselves and the reflector has not seen yet. A decision therefore never
// misses its own write, so nothing is created or patched twice (row 9 of reference
// 3.6 needs no row). An assumption ends by itself, without a timer: with the event of
// the write, with a deletion, with a list, or with the first bookmark that is newer
// and has not brought it (T24). A write whose answer is read after the watch has passed
// it is not assumed: the watch has shown what became of it, its deletion for one.
//
// Resource versions of one resource are comparable (KEP-5504); one that does not parse
// counts as newer than everything.
type store struct {
	trim func(client.Object)
	// changed is called, outside the lock, with every object that was added, altered or
	// removed by somebody else.
	changed func(client.Object)

	mu      sync.RWMutex
	objects map[types.NamespacedName]client.Object
	assumed map[types.NamespacedName]struct{}
	// seen is the resource version up to which the reflector has shown everything; ""
	// before its first list.
	seen string
	// newest is the highest resource version in an event, a list or the answer to a write.
	newest string
	// restored says that the server is behind newest: the next list replaces everything.
	restored bool
	synced   chan struct{}
	isSynced bool
}

var (
	_ cache.TransformingStore      = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
)

func newStore(trim func(client.Object), changed func(client.Object)) *store {
	return &store{
		trim:    trim,
		changed: changed,
		objects: map[types.NamespacedName]client.Object{},
		assumed: map[types.NamespacedName]struct{}{},
		synced:  make(chan struct{}),
	}
}

// Get returns the object or nil.
func (s *store) Get(namespace, name string) client.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Names returns the names of the objects in a namespace, or in all for "".
func (s *store) Names(namespace string) []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]types.NamespacedName, 0, len(s.objects))
	for name := range s.objects {
		if namespace == "" || name.Namespace == namespace {
			out = append(out, name)
		}
	}
	return out
}

// List returns the objects in a namespace, or in all for "".
func (s *store) List(namespace string) []client.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]client.Object, 0, len(s.objects))
	for name, object := range s.objects {
		if namespace == "" || name.Namespace == namespace {
			out = append(out, object)
		}
	}
	return out
}

// Assume records the answer to a write of ours.
func (s *store) Assume(obj client.Object) {
	s.transform(obj)
	name := client.ObjectKeyFromObject(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != "" && !newerVersion(obj.GetResourceVersion(), s.seen) {
		return
	}
	s.raise(obj.GetResourceVersion())
	if have := s.objects[name]; have != nil && !newer(obj, have) {
		return
	}
	s.objects[name] = obj
	s.assumed[name] = struct{}{}
}

// AssumeDeleted records that the object with this UID is being deleted.
func (s *store) AssumeDeleted(namespace, name string, uid types.UID, now metav1.Time) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.objects[key]
	if have == nil || have.GetUID() != uid || have.GetDeletionTimestamp() != nil {
		return
	}
	gone, ok := have.DeepCopyObject().(client.Object)
	if !ok {
		return
	}
	gone.SetDeletionTimestamp(&now)
	s.objects[key] = gone
}

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error {
	object, ok := obj.(client.Object)
	if !ok {
		return nil
	}
	s.transform(object)
	s.mu.Lock()
	news := s.put(object)
	s.pass(object.GetResourceVersion())
	s.mu.Unlock()
	if news {
		s.changed(object)
	}
	return nil
}

// pass records that the watch has reached a resource version; it never goes back. It is
// called under the same lock as what the watch showed is stored: an answer that came in
// between would be assumed although it is refuted already.
func (s *store) pass(version string) {
	if s.seen == "" || newerVersion(version, s.seen) {
		s.seen = version
	}
	s.raise(version)
}

// raise records, under the lock, a resource version that the server has reached.
func (s *store) raise(version string) {
	if s.newest == "" || newerVersion(version, s.newest) {
		s.newest = version
	}
}

// wentBack reports whether a server that is at a resource version now has been at a later
// one: its data was restored from a backup. Then the next list replaces everything.
func (s *store) wentBack(version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(version, s.newest)
	s.restored = s.restored || err == nil && order < 0
	return s.restored
}

// put stores, under the lock, what the reflector saw, and reports whether that is news.
func (s *store) put(object client.Object) bool {
	name := client.ObjectKeyFromObject(object)
	have := s.objects[name]
	if have == nil || newer(object, have) {
		s.objects[name] = object
		delete(s.assumed, name)
		return true
	}
	if have.GetResourceVersion() == object.GetResourceVersion() {
		// Our own write comes back, or a reflector starts again where it was.
		delete(s.assumed, name)
	}
	return false
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	object, ok := obj.(client.Object)
	if !ok {
		return nil
	}
	name := client.ObjectKeyFromObject(object)
	s.mu.Lock()
	have := s.objects[name]
	gone := have != nil && !knownNewer(have, object)
	if gone {
		delete(s.objects, name)
		delete(s.assumed, name)
	}
	s.pass(object.GetResourceVersion())
	s.mu.Unlock()
	if gone {
		s.changed(have)
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *store) Replace(list []any, resourceVersion string) error {
	seen := make(map[types.NamespacedName]struct{}, len(list))
	var altered []client.Object
	for _, item := range list {
		if object, ok := item.(client.Object); ok {
			s.transform(object)
		}
	}
	s.mu.Lock()
	before := s.restore(resourceVersion)
	for _, item := range list {
		object, ok := item.(client.Object)
		if !ok {
			continue
		}
		seen[client.ObjectKeyFromObject(object)] = struct{}{}
		if s.put(object) {
			altered = append(altered, object)
		}
	}
	for name, have := range before {
		_, listed := seen[name]
		_, assumed := s.assumed[name]
		if listed || assumed && newerVersion(have.GetResourceVersion(), resourceVersion) {
			continue
		}
		delete(s.objects, name)
		delete(s.assumed, name)
		altered = append(altered, have)
	}
	first := !s.isSynced
	s.isSynced = true
	s.seen = resourceVersion // it goes back with a restored server
	s.raise(resourceVersion)
	s.mu.Unlock()
	for _, object := range altered {
		s.changed(object)
	}
	if first {
		close(s.synced)
	}
	return nil
}

// restore returns, under the lock, the objects that a list of this resource version
// replaces. A list that is older than what was seen comes from a server that went back: a
// reflector asks for lists that are not older, or reads from the quorum. Its older objects
// replace the cached ones, and our later writes are lost.
func (s *store) restore(version string) map[types.NamespacedName]client.Object {
	before := s.objects
	if order, err := resourceversion.CompareResourceVersion(version, s.seen); s.restored || err == nil && order < 0 {
		s.objects, s.assumed = map[types.NamespacedName]client.Object{}, map[types.NamespacedName]struct{}{}
		s.restored, s.newest = false, version
	}
	return before
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (s *store) Bookmark(resourceVersion string) error {
	var refuted []client.Object
	s.mu.Lock()
	for name := range s.assumed {
		have := s.objects[name]
		if newerVersion(have.GetResourceVersion(), resourceVersion) {
			continue
		}
		delete(s.objects, name)
		delete(s.assumed, name)
		refuted = append(refuted, have)
	}
	s.pass(resourceVersion)
	s.mu.Unlock()
	for _, object := range refuted {
		s.changed(object)
	}
	return nil
}

// Resync implements cache.ReflectorStore: there is none.
func (s *store) Resync() error { return nil }

// Transformer implements cache.TransformingStore.
func (s *store) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		if object, ok := obj.(client.Object); ok {
			s.transform(object)
		}
		return obj, nil
	}
}

func (s *store) transform(object client.Object) {
	object.SetManagedFields(applied(object.GetManagedFields()))
	if s.trim != nil {
		s.trim(object)
	}
}

// applied returns the entry of the applies of ours, by which [cover] knows what the next
// one would remove; nil for the objects that are not applied.
func applied(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for i := range entries {
		if e := &entries[i]; e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			return []metav1.ManagedFieldsEntry{*e}
		}
	}
	return nil
}

// newer reports whether a is a later state than b.
func newer(a, b client.Object) bool {
	return newerVersion(a.GetResourceVersion(), b.GetResourceVersion())
}

func newerVersion(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// knownNewer reports whether a is for certain a later state than b: a deletion, for one,
// that is older than what we created since.
func knownNewer(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}
