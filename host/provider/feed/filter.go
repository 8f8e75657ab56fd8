package feed

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// event is a watch event of the API server. raw is the event without managedFields that only say who
// updated the object.
type event struct {
	kind               watch.EventType
	namespace, version string
	// endsInitial marks the bookmark after the initial events (KEP-3157).
	endsInitial bool
	raw         []byte
}

// parse reads what the filter needs of a watch event. It keeps no reference to raw.
func parse(raw []byte) (event, error) {
	var e struct {
		Type   watch.EventType `json:"type"`
		Object struct {
			Metadata struct {
				Namespace       string          `json:"namespace"`
				ResourceVersion string          `json:"resourceVersion"`
				ManagedFields   json.RawMessage `json:"managedFields"`
			} `json:"metadata"`
		} `json:"object"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return event{}, fmt.Errorf("reading a watch event: %w", err)
	}
	return event{
		kind: e.Type, namespace: e.Object.Metadata.Namespace, version: e.Object.Metadata.ResourceVersion, raw: cut(raw, e.Object.Metadata.ManagedFields),
		// Other bookmarks have no annotations.
		endsInitial: e.Type == watch.Bookmark && bytes.Contains(raw, []byte(metav1.InitialEventsAnnotationKey)),
	}, nil
}

// cut returns a copy of an object without its managedFields. They are up to half of a pod, and virtual
// kubelets use only those of an apply: an object that has such is returned whole. So is one that has
// another value with that key before. The text of the key occurs in no string, in which quotes are escaped.
func cut(raw, managedFields []byte) []byte {
	const key = `"managedFields":`
	start := bytes.Index(raw, []byte(key))
	// A list that begins with a list is that list.
	isList := bytes.HasPrefix(managedFields, []byte("["))
	if start < 0 || !isList || !bytes.HasPrefix(raw[start+len(key):], managedFields) || bytes.Contains(managedFields, []byte(`"Apply"`)) {
		return bytes.Clone(raw)
	}
	end := start + len(key) + len(managedFields)
	switch {
	case raw[start-1] == ',':
		start--
	case raw[end] == ',':
		end++
	}
	without := make([]byte, 0, len(raw)+1)
	return append(append(without, raw[:start]...), raw[end:]...)
}

// passes reports whether the caller gets an event. Events of an unknown type do not pass.
func passes(e event, shows func(namespace string) bool) bool {
	switch e.kind {
	case watch.Added, watch.Modified, watch.Deleted:
		return e.namespace != "" && shows(e.namespace)
	case watch.Bookmark, watch.Error:
		return e.namespace == ""
	default:
		return false
	}
}

// resources is the answer to discovery. It lists no resource: clients that work on all resources of
// a cluster, such as the garbage collector, see each object only once.
func resources(groupVersion string) metav1.APIResourceList {
	return metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: groupVersion, APIResources: []metav1.APIResource{},
	}
}
