package engine

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// selected are the objects of a store that have certain labels. Several engines share the store,
// and each reads the objects of its virtual node.
type selected struct {
	*store
	having labelTexts
}

// Get returns the object or nil.
func (s *selected) Get(namespace, name string) client.Object {
	return s.get(types.NamespacedName{Namespace: namespace, Name: name}, s.having)
}

// List returns the objects in a namespace, or in all for "".
func (s *selected) List(namespace string) []client.Object { return s.list(namespace, s.having) }

// Names returns the names of the objects in a namespace, or in all for "".
func (s *selected) Names(namespace string) []types.NamespacedName {
	return s.names(namespace, s.having)
}

// replaceSelected replaces the objects by those of a list that was read beside the watch. It
// reports false if the API server was restored from a backup: the next list of the watch replaces
// all objects then.
func (s *selected) replaceSelected(list []any, version string) bool {
	altered, ok := s.replaceListed(s.prepare(list), version)
	for _, object := range altered {
		s.changed(object)
	}
	return ok
}

// replaceListed is replaceSelected without calling changed. It returns the objects that were added,
// changed or removed.
func (s *selected) replaceListed(items map[types.NamespacedName]item, version string) (altered []client.Object, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(version, s.seen); err == nil && order < 0 {
		s.restored = true
		return nil, false
	}
	for name, have := range s.objects.in("") {
		_, isListed := items[name]
		if isListed || !have.hasLabels(s.having) || knownNewerVersion(have.version, version) {
			continue
		}
		s.objects.remove(name)
		delete(s.assumed, name)
		gone := s.unwrap(have)
		s.noteLeaving(name, gone)
		altered = append(altered, gone)
	}
	for name, listed := range items {
		if s.putFromList(name, listed.kept) {
			altered = append(altered, s.current(name, listed))
		}
	}
	s.raiseNewest(version)
	return altered, true
}

// hasLabels reports whether an object has all labels of a set.
func hasLabels(object client.Object, set labels.Set) bool {
	have := object.GetLabels()
	for key, value := range set {
		if found, ok := have[key]; !ok || found != value {
			return false
		}
	}
	return true
}
