package feed

import (
	"bytes"
	"errors"
	"strings"

	"github.com/tidwall/gjson"
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

var errMalformed = errors.New("a watch event is not a JSON object with a type")

// parse reads what the filter needs of a watch event. It keeps no reference to raw. A library reads it that
// finds values without decoding: after a restart, a virtual kubelet reads all objects through the feed.
func parse(raw []byte) (event, error) {
	if !gjson.ValidBytes(raw) {
		return event{}, errMalformed
	}
	read := gjson.ParseBytes(raw)
	kind, metadata := read.Get("type"), read.Get("object.metadata")
	if !read.IsObject() || kind.Exists() && kind.Type != gjson.String {
		return event{}, errMalformed
	}
	e := event{kind: watch.EventType(kind.String()), namespace: metadata.Get("namespace").String(), version: metadata.Get("resourceVersion").String()}
	e.raw = cut(raw, read.Get("object.metadata.managedFields"))
	// Other bookmarks have no annotations.
	e.endsInitial = e.kind == watch.Bookmark && bytes.Contains(raw, []byte(metav1.InitialEventsAnnotationKey))
	return e, nil
}

// cut returns a copy of an event without its managedFields. They are up to half of a pod, and virtual
// kubelets use only those of an apply: an object that has such is returned whole.
func cut(raw []byte, managedFields gjson.Result) []byte {
	const key = `"managedFields":`
	start, end := managedFields.Index-len(key), managedFields.Index+len(managedFields.Raw)
	if !managedFields.IsArray() || start < 0 || !bytes.HasPrefix(raw[start:], []byte(key)) || strings.Contains(managedFields.Raw, `"Apply"`) {
		return bytes.Clone(raw)
	}
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
