package engine

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store is the cache of one informer. It holds the objects that the reflector has seen, and
// the answers to writes of this process that the reflector has not seen yet: assumed
// objects. A decision therefore sees its own writes, and creates and patches nothing twice.
// An assumption ends with the event of the write, with a deletion, with
// a list, or with a newer bookmark that did not bring the object. An answer that
// arrives after the watch has passed its resource version is not assumed.
//
// The answer to a write has what another writer changed after the decision, for example a
// deletion. The event of that change is news, although the object is not newer than the answer.
//
// Resource versions of one resource are comparable (KEP-5504). One that does not parse
// counts as newer than all others.
type store struct {
	kind Kind
	// changed is called, outside the lock, with each object that another writer added,
	// changed or removed.
	changed func(client.Object)
	// filled is called after the first list, and wrote, outside the lock, with each answer that is assumed.
	// Optional.
	filled func()
	wrote  func(client.Object)

	mu      sync.RWMutex
	objects objects
	// assumed has the resource versions of the assumed writes of an object.
	assumed map[types.NamespacedName][]string
	// seen is the resource version up to which the reflector has seen all changes; ""
	// before its first list.
	seen string
	// newest is the highest resource version in an event, a list or the answer to a write.
	newest string
	// lost has the objects that left the watch before they had ended (Kind.HasEnded).
	lost map[types.NamespacedName]bool
	// restored is set when the server is behind newest. The next list replaces all objects.
	restored bool
	synced   chan struct{}
	isSynced bool
	// room is shared with other stores; nil without a limit. size is what this one takes of it.
	room *room
	size int64
	// stop ends the watch that is under way, for which there was no room if overflowed is set.
	stop       context.CancelFunc
	overflowed error

	fresh freshness
}

var (
	_ cache.TransformingStore      = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
)

func newStore(kind Kind, changed func(client.Object)) *store {
	s := &store{
		kind:    kind,
		changed: changed,
		objects: objects{},
		assumed: map[types.NamespacedName][]string{},
		lost:    map[types.NamespacedName]bool{},
		synced:  make(chan struct{}),
	}
	s.fresh.moment.Store(moments.Add(1))
	return s
}

// Get returns the object or nil.
func (s *store) Get(namespace, name string) client.Object {
	s.mu.RLock()
	kept := s.objects.get(types.NamespacedName{Namespace: namespace, Name: name})
	s.mu.RUnlock()
	return s.unwrap(kept)
}

// Names returns the names of the objects in a namespace, or in all for "".
func (s *store) Names(namespace string) (names []types.NamespacedName) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name := range s.objects.in(namespace) {
		names = append(names, name)
	}
	return names
}

// List returns the objects in a namespace, or in all for "".
func (s *store) List(namespace string) []client.Object {
	found := s.find(namespace)
	out := make([]client.Object, 0, len(found))
	for _, kept := range found {
		out = append(out, s.unwrap(kept))
	}
	return out
}

// find returns the objects in a namespace, or in all for "".
func (s *store) find(namespace string) (found []*stored) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, kept := range s.objects.in(namespace) {
		found = append(found, kept)
	}
	return found
}

// Assume stores the answer to a write of this process.
func (s *store) Assume(obj client.Object) {
	s.transform(obj)
	if s.assume(client.ObjectKeyFromObject(obj), s.wrap(obj)) && s.wrote != nil {
		s.wrote(obj)
	}
}

// assume reports whether it stores the object.
func (s *store) assume(name types.NamespacedName, kept *stored) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != "" && !newerVersion(kept.version, s.seen) {
		return false
	}
	s.raiseNewest(kept.version)
	if have := s.objects.get(name); have != nil && !newerVersion(kept.version, have.version) {
		return false
	}
	s.set(name, kept)
	s.assumed[name] = append(s.assumed[name], kept.version)
	return true
}

// AssumeDeleted records that the object with this UID is being deleted.
func (s *store) AssumeDeleted(namespace, name string, uid types.UID, now metav1.Time) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.objects.get(key)
	if have == nil || have.uid != uid || have.isDeleted {
		return
	}
	gone, ok := s.unwrap(have).DeepCopyObject().(client.Object)
	if !ok {
		return
	}
	gone.SetDeletionTimestamp(&now)
	s.set(key, s.wrap(gone))
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
	name, kept := client.ObjectKeyFromObject(object), s.wrap(object)
	s.mu.Lock()
	have := s.objects.get(name)
	if s.overflowed != nil || s.admit(kept.cost()-have.cost()) != nil {
		s.mu.Unlock()
		return nil // The reflector would log the object with the error. It ends.
	}
	isNews := s.put(name, kept)
	now := s.objects.get(name)
	s.advance(kept.version)
	s.mu.Unlock()
	if !isNews {
		return nil
	}
	if now != kept {
		// An answer stays that is newer than the event, and the event tells what the answer brought.
		s.changed(s.unwrap(now))
		return nil
	}
	if s.hasOnlyTrimmed(have, object) {
		return nil
	}
	s.changed(object)
	return nil
}

// hasOnlyTrimmed reports whether an object changed only in what was trimmed, such as the heartbeat of a
// Node: no decision reads that.
func (s *store) hasOnlyTrimmed(before *stored, after client.Object) bool {
	if s.kind.Trim == nil || before == nil || !before.hasOnlyLabels(after.GetLabels()) {
		return false
	}
	same, ok := s.unwrap(before).DeepCopyObject().(client.Object)
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
func (s *store) put(name types.NamespacedName, kept *stored) bool {
	delete(s.lost, name)
	have, writes := s.objects.get(name), s.assumed[name]
	switch {
	case have == nil || newerVersion(kept.version, have.version):
		s.set(name, kept)
		delete(s.assumed, name)
		return true
	case have.version == kept.version:
		// The event of an assumed write, or a list that repeats the object.
		delete(s.assumed, name)
		return false
	default:
		return len(writes) > 0 && !slices.Contains(writes, kept.version)
	}
}

// putFromList is put for an object of a list, which may lack the event of another writer's change
// before a write that is assumed.
func (s *store) putFromList(name types.NamespacedName, kept *stored) bool {
	_, isAssumed := s.assumed[name]
	return s.put(name, kept) || isAssumed
}

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	object, ok := obj.(client.Object)
	if !ok {
		return nil
	}
	name := client.ObjectKeyFromObject(object)
	s.mu.Lock()
	if s.overflowed != nil {
		s.mu.Unlock()
		return nil
	}
	have := s.objects.get(name)
	gone := have != nil && !knownNewerVersion(have.version, object.GetResourceVersion())
	if gone {
		s.leave(name, object)
	}
	s.advance(object.GetResourceVersion())
	s.mu.Unlock()
	if gone {
		s.changed(s.unwrap(have))
	}
	return nil
}

// leave removes, under the lock, an object that left the watch or a list, and records it if it had not ended.
func (s *store) leave(name types.NamespacedName, last client.Object) {
	s.remove(name)
	delete(s.assumed, name)
	if s.kind.HasEnded != nil && !s.kind.HasEnded(last) {
		s.lost[name] = true
	}
}

// isLost reports whether an object left the watch before it had ended, and did not come back.
func (s *store) isLost(namespace, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lost[types.NamespacedName{Namespace: namespace, Name: name}]
}

// forgetLost records that an object of which isLost reports true does not exist, or does not matter.
func (s *store) forgetLost(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lost, types.NamespacedName{Namespace: namespace, Name: name})
}

// Replace implements cache.ReflectorStore.
func (s *store) Replace(list []any, resourceVersion string) error {
	items := s.prepare(list)
	s.mu.Lock()
	if err := s.admitAll(items); err != nil {
		s.mu.Unlock()
		return err
	}
	before := s.restore(resourceVersion)
	altered := s.putListed(items, resourceVersion)
	for name, have := range before.in("") {
		_, isListed := items[name]
		_, isAssumed := s.assumed[name]
		if isListed || isAssumed && newerVersion(have.version, resourceVersion) {
			continue
		}
		gone := s.unwrap(have)
		s.leave(name, gone)
		altered = append(altered, gone)
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
		if s.filled != nil {
			s.filled()
		}
	}
	return nil
}

// item is an object of a list, and what the store keeps of it.
type item struct {
	object client.Object
	kept   *stored
}

// prepare returns the objects of a list by name.
func (s *store) prepare(list []any) map[types.NamespacedName]item {
	items := make(map[types.NamespacedName]item, len(list))
	for _, listed := range list {
		if object, ok := listed.(client.Object); ok {
			s.transform(object)
			items[client.ObjectKeyFromObject(object)] = item{object: object, kept: s.wrap(object)}
		}
	}
	return items
}

// current returns, under the lock, the object that is stored after an item was put.
func (s *store) current(name types.NamespacedName, put item) client.Object {
	if kept := s.objects.get(name); kept != put.kept {
		return s.unwrap(kept)
	}
	return put.object
}

// putListed stores the objects of a list. It returns those that were added or changed. The caller
// holds the lock.
func (s *store) putListed(items map[types.NamespacedName]item, resourceVersion string) (altered []client.Object) {
	for name, listed := range items {
		if have := s.objects.get(name); have != nil && isUndone(have, listed.kept, resourceVersion) {
			s.remove(name)
			delete(s.assumed, name)
		}
		if s.putFromList(name, listed.kept) {
			altered = append(altered, s.current(name, listed))
		}
	}
	return altered
}

// isUndone reports whether a list of a resource version lacks what had happened to an object before
// that version. The server was restored from a backup, and has reached the version again. An
// assumed deletion may also be later than the list: then it is sent twice.
func isUndone(have, listed *stored, version string) bool {
	if have.version == listed.version {
		return have.isDeleted && !listed.isDeleted
	}
	return newerVersion(have.version, listed.version) && !newerVersion(have.version, version)
}

// restore returns, under the lock, the objects that a list of this resource version
// replaces. A list that is older than what was seen comes from a restored server, because a
// reflector requests lists that are not older. Its objects replace newer ones, and the
// assumed writes are dropped.
func (s *store) restore(version string) objects {
	before := s.objects
	if order, err := resourceversion.CompareResourceVersion(version, s.seen); s.restored || err == nil && order < 0 {
		s.room.add(-s.size)
		s.objects, s.size, s.assumed = objects{}, 0, map[types.NamespacedName][]string{}
		s.restored, s.newest = false, version
	}
	return before
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (s *store) Bookmark(resourceVersion string) error {
	var dropped []client.Object
	s.mu.Lock()
	if s.overflowed != nil {
		s.mu.Unlock()
		return nil
	}
	for name := range s.assumed {
		have := s.objects.get(name)
		if newerVersion(have.version, resourceVersion) {
			continue
		}
		s.remove(name)
		delete(s.assumed, name)
		dropped = append(dropped, s.unwrap(have))
	}
	s.advance(resourceVersion)
	s.mu.Unlock()
	for _, object := range dropped {
		s.changed(object)
	}
	return nil
}

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
	if s.kind.Trim != nil {
		s.kind.Trim(object)
	}
}

// applied returns the fields of this reflection's applies as managed fields, from which [cover] knows
// what the next one would remove; nil for objects that are not applied.
func applied(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for i := range entries {
		if e := &entries[i]; e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			return appliedEntry(e.FieldsV1)
		}
	}
	return nil
}

// appliedEntry returns managed fields with these fields. Nothing reads when, or in which version, they
// were applied.
func appliedEntry(fields *metav1.FieldsV1) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{
		Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: fields,
	}}
}
