package engine

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store is the cache of one informer. It holds the objects that the reflector has seen, and
// the answers to writes of this process that the reflector has not seen yet: assumed
// objects. A decision therefore sees its own writes, and creates and patches nothing twice
// (row 9 of wire 3.6). An assumption ends with the event of the write, with a deletion, with
// a list, or with a newer bookmark that did not bring the object (T24). An answer that
// arrives after the watch has passed its resource version is not assumed.
//
// The answer to a write has what another writer changed after the decision, for example a
// deletion. The event of that change is news, although the object is not newer than the answer.
//
// Resource versions of one resource are comparable (KEP-5504). One that does not parse
// counts as newer than all others.
type store struct {
	trim func(client.Object)
	// changed is called, outside the lock, with each object that another writer added,
	// changed or removed.
	changed func(client.Object)

	mu      sync.RWMutex
	objects map[types.NamespacedName]client.Object
	// assumed has the resource versions of the assumed writes of an object.
	assumed map[types.NamespacedName][]string
	// seen is the resource version up to which the reflector has seen all changes; ""
	// before its first list.
	seen string
	// newest is the highest resource version in an event, a list or the answer to a write.
	newest string
	// restored is set when the server is behind newest. The next list replaces all objects.
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
		assumed: map[types.NamespacedName][]string{},
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

// Assume stores the answer to a write of this process.
func (s *store) Assume(obj client.Object) {
	s.transform(obj)
	if have := s.assume(obj); have != nil && have.GetUID() != obj.GetUID() && !labels.Equals(have.GetLabels(), obj.GetLabels()) {
		s.changed(have) // its deletion will not be seen, and it may be of another virtual node
	}
}

// assume is Assume without calling changed. It returns the replaced object or nil.
func (s *store) assume(obj client.Object) client.Object {
	name := client.ObjectKeyFromObject(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != "" && !newerVersion(obj.GetResourceVersion(), s.seen) {
		return nil
	}
	s.raiseNewest(obj.GetResourceVersion())
	have := s.objects[name]
	if have != nil && !newer(obj, have) {
		return nil
	}
	s.objects[name] = obj
	s.assumed[name] = append(s.assumed[name], obj.GetResourceVersion())
	return have
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
	name := client.ObjectKeyFromObject(object)
	s.mu.Lock()
	have := s.objects[name]
	isNews := s.put(object)
	now := s.objects[name]
	s.advance(object.GetResourceVersion())
	s.mu.Unlock()
	// While an answer stays that is newer than the event, the event tells what the answer brought.
	if isNews && now != have && s.hasOnlyTrimmed(have, now) {
		return nil
	}
	if isNews && have != nil && !labels.Equals(have.GetLabels(), now.GetLabels()) {
		s.changed(have) // it may be of another virtual node
	}
	if isNews {
		s.changed(now)
	}
	return nil
}

// hasOnlyTrimmed reports whether an object changed only in what was trimmed, such as the heartbeat of a
// Node: no decision reads that.
func (s *store) hasOnlyTrimmed(before, after client.Object) bool {
	if s.trim == nil || before == nil {
		return false
	}
	same, ok := before.DeepCopyObject().(client.Object)
	if !ok {
		return false
	}
	same.SetResourceVersion(after.GetResourceVersion())
	return equality.Semantic.DeepEqual(same, after)
}

// advance records, under the lock, that the watch has reached a resource version. The caller
// stores the event under the same lock, so that no older answer is assumed in between.
func (s *store) advance(version string) {
	if s.seen == "" || newerVersion(version, s.seen) {
		s.seen = version
	}
	s.raiseNewest(version)
}

// raiseNewest records, under the lock, a resource version that the server has reached.
func (s *store) raiseNewest(version string) {
	if s.newest == "" || newerVersion(version, s.newest) {
		s.newest = version
	}
}

// detectRestore reports whether the server's current resource version is lower than an
// earlier one: its data was restored from a backup. Then the next list replaces all objects.
func (s *store) detectRestore(version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(version, s.newest)
	s.restored = s.restored || err == nil && order < 0
	return s.restored
}

// put stores, under the lock, an object from the reflector, and reports whether it is news: newer
// than the stored one, or changed by another writer before a write that is assumed.
func (s *store) put(object client.Object) bool {
	name, version := client.ObjectKeyFromObject(object), object.GetResourceVersion()
	have, writes := s.objects[name], s.assumed[name]
	switch {
	case have == nil || newer(object, have):
		s.objects[name] = object
		delete(s.assumed, name)
		return true
	case have.GetResourceVersion() == version:
		// The event of an assumed write, or a list that repeats the object.
		delete(s.assumed, name)
		return false
	default:
		return len(writes) > 0 && !slices.Contains(writes, version)
	}
}

// putFromList is put for an object of a list, which may lack the event of another writer's change
// before a write that is assumed.
func (s *store) putFromList(object client.Object) bool {
	_, isAssumed := s.assumed[client.ObjectKeyFromObject(object)]
	return s.put(object) || isAssumed
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
	s.advance(object.GetResourceVersion())
	s.mu.Unlock()
	if gone {
		s.changed(have)
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *store) Replace(list []any, resourceVersion string) error {
	for _, item := range list {
		if object, ok := item.(client.Object); ok {
			s.transform(object)
		}
	}
	s.mu.Lock()
	before := s.restore(resourceVersion)
	altered, listed := s.putListed(list, before, resourceVersion)
	for name, have := range before {
		_, isListed := listed[name]
		_, isAssumed := s.assumed[name]
		if isListed || isAssumed && newerVersion(have.GetResourceVersion(), resourceVersion) {
			continue
		}
		delete(s.objects, name)
		delete(s.assumed, name)
		altered = append(altered, have)
	}
	first := !s.isSynced
	s.isSynced = true
	s.seen = resourceVersion // lower than before after a restore
	s.raiseNewest(resourceVersion)
	s.mu.Unlock()
	for _, object := range altered {
		s.changed(object)
	}
	if first {
		close(s.synced)
	}
	return nil
}

// putListed stores the objects of a list. It returns those that were added or changed, and the names
// of all. The caller holds the lock.
func (s *store) putListed(list []any, before map[types.NamespacedName]client.Object, resourceVersion string) (altered []client.Object, listed map[types.NamespacedName]struct{}) {
	listed = make(map[types.NamespacedName]struct{}, len(list))
	for _, item := range list {
		object, ok := item.(client.Object)
		if !ok {
			continue
		}
		name := client.ObjectKeyFromObject(object)
		listed[name] = struct{}{}
		replaced := before[name]
		if have := s.objects[name]; have != nil && isUndone(have, object, resourceVersion) {
			delete(s.objects, name)
			delete(s.assumed, name)
		}
		if !s.putFromList(object) {
			continue
		}
		altered = append(altered, s.objects[name])
		if replaced != nil && !labels.Equals(replaced.GetLabels(), object.GetLabels()) {
			altered = append(altered, replaced) // it may be of another virtual node
		}
	}
	return altered, listed
}

// isUndone reports whether a list of a resource version lacks what had happened to an object before
// that version. The server was restored from a backup, and has reached the version again. An
// assumed deletion may also be later than the list: then it is sent twice.
func isUndone(have, listed client.Object, version string) bool {
	if have.GetResourceVersion() == listed.GetResourceVersion() {
		return have.GetDeletionTimestamp() != nil && listed.GetDeletionTimestamp() == nil
	}
	return newerVersion(have.GetResourceVersion(), listed.GetResourceVersion()) && !newerVersion(have.GetResourceVersion(), version)
}

// restore returns, under the lock, the objects that a list of this resource version
// replaces. A list that is older than what was seen comes from a restored server, because a
// reflector requests lists that are not older. Its objects replace newer ones, and the
// assumed writes are dropped.
func (s *store) restore(version string) map[types.NamespacedName]client.Object {
	before := s.objects
	if order, err := resourceversion.CompareResourceVersion(version, s.seen); s.restored || err == nil && order < 0 {
		s.objects, s.assumed = map[types.NamespacedName]client.Object{}, map[types.NamespacedName][]string{}
		s.restored, s.newest = false, version
	}
	return before
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (s *store) Bookmark(resourceVersion string) error {
	var dropped []client.Object
	s.mu.Lock()
	for name := range s.assumed {
		have := s.objects[name]
		if newerVersion(have.GetResourceVersion(), resourceVersion) {
			continue
		}
		delete(s.objects, name)
		delete(s.assumed, name)
		dropped = append(dropped, have)
	}
	s.advance(resourceVersion)
	s.mu.Unlock()
	for _, object := range dropped {
		s.changed(object)
	}
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing.
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

// applied returns the managed fields of this reflection's applies, from which [cover] knows
// what the next one would remove; nil for objects that are not applied.
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

// knownNewer reports whether a is a later state than b, and both versions are comparable.
func knownNewer(a, b client.Object) bool {
	return knownNewerVersion(a.GetResourceVersion(), b.GetResourceVersion())
}

func knownNewerVersion(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
