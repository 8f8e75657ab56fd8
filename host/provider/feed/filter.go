package feed

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// event is a watch event of the API server. raw is the event as it was received.
type event struct {
	kind               watch.EventType
	namespace, version string
	// endsInitial marks the bookmark after the initial events (KEP-3157).
	endsInitial bool
	raw         json.RawMessage
}

// parse reads what the filter needs of a watch event.
func parse(raw json.RawMessage) (event, error) {
	var e struct {
		Type   watch.EventType `json:"type"`
		Object struct {
			Metadata struct {
				Namespace       string `json:"namespace"`
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
		} `json:"object"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return event{}, fmt.Errorf("reading a watch event: %w", err)
	}
	return event{
		kind: e.Type, namespace: e.Object.Metadata.Namespace, version: e.Object.Metadata.ResourceVersion, raw: raw,
		// Other bookmarks have no annotations.
		endsInitial: e.Type == watch.Bookmark && bytes.Contains(raw, []byte(metav1.InitialEventsAnnotationKey)),
	}, nil
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
