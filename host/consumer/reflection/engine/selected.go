package engine

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
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
