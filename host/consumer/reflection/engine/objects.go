package engine

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"
)

// objects are the objects of a store by namespace and name: each namespace is looked up
// alone.
type objects map[string]map[string]*stored

// get returns the object of a name or nil.
func (o objects) get(name types.NamespacedName) *stored { return o[name.Namespace][name.Name] }

func (o objects) set(name types.NamespacedName, kept *stored) {
	inside := o[name.Namespace]
	if inside == nil {
		inside = map[string]*stored{}
		o[name.Namespace] = inside
	}
	inside[name.Name] = kept
}

func (o objects) remove(name types.NamespacedName) {
	inside := o[name.Namespace]
	if delete(inside, name.Name); len(inside) == 0 {
		delete(o, name.Namespace)
	}
}

// in yields the objects of a namespace, or of all for "". Objects may be removed meanwhile.
func (o objects) in(namespace string) iter.Seq2[types.NamespacedName, *stored] {
	return func(yield func(types.NamespacedName, *stored) bool) {
		if namespace != "" {
			yieldNamespace(namespace, o[namespace], yield)
			return
		}
		for namespace, inside := range o {
			if !yieldNamespace(namespace, inside, yield) {
				return
			}
		}
	}
}

func yieldNamespace(namespace string, inside map[string]*stored, yield func(types.NamespacedName, *stored) bool) bool {
	for name, kept := range inside {
		if !yield(types.NamespacedName{Namespace: namespace, Name: name}, kept) {
			return false
		}
	}
	return true
}
