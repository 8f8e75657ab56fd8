package feed

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/longshore-dev/longshore/host/kit/feed"
)

// event is a watch event of the API server. raw is its frame, without managedFields that only say who updated the
// object.
type event struct {
	kind               watch.EventType
	namespace, version string
	// endsInitial marks the bookmark after the initial events (KEP-3157).
	endsInitial bool
	raw         []byte
}

var errMalformed = errors.New("a watch event is not a JSON object with a type")

// parse reads what the filter needs of a watch event. It keeps no reference to raw.
func parse(encoding feed.Encoding, raw []byte) (event, error) {
	if encoding == feed.Protobuf {
		return parseProtobuf(raw)
	}
	return parseJSON(raw)
}

// metadataField is the number of the field metadata in the messages of all built-in kinds.
const metadataField = 1

// parseProtobuf decodes the metadata of the object only.
func parseProtobuf(raw []byte) (event, error) {
	var read metav1.WatchEvent
	if err := read.Unmarshal(raw); err != nil {
		return event{}, fmt.Errorf("decoding a watch event: %w", err)
	}
	e := event{kind: watch.EventType(read.Type)}
	if e.kind == watch.Error { // Its object is a Status.
		e.raw = feed.Protobuf.Frame(raw)
		return e, nil
	}
	var object runtime.Unknown
	if _, _, err := protobuf.NewSerializer(nil, nil).Decode(read.Object.Raw, nil, &object); err != nil {
		return event{}, fmt.Errorf("decoding the object of a watch event: %w", err)
	}
	var partial metav1.PartialObjectMetadata
	if err := partial.Unmarshal(object.Raw); err != nil {
		return event{}, fmt.Errorf("decoding the metadata of a watch event: %w", err)
	}
	metadata := &partial.ObjectMeta
	e.namespace, e.version = metadata.Namespace, metadata.ResourceVersion
	e.endsInitial = e.kind == watch.Bookmark && metadata.Annotations[metav1.InitialEventsAnnotationKey] != ""
	field, _, first := protowire.ConsumeField(object.Raw)
	if field != metadataField || len(metadata.ManagedFields) == 0 || slices.ContainsFunc(metadata.ManagedFields, isApplied) {
		e.raw = feed.Protobuf.Frame(raw)
		return e, nil
	}
	metadata.ManagedFields = nil
	without, err := partial.Marshal()
	if err != nil {
		return event{}, fmt.Errorf("encoding the metadata of a watch event: %w", err)
	}
	object.Raw = append(without, object.Raw[first:]...)
	e.raw, err = feed.ProtobufEvent(e.kind, &object)
	return e, err
}

func isApplied(managed metav1.ManagedFieldsEntry) bool {
	return managed.Operation == metav1.ManagedFieldsOperationApply
}

// parseJSON uses a library that finds values without decoding: after a restart, a virtual kubelet reads all
// objects through the feed.
func parseJSON(raw []byte) (event, error) {
	if !gjson.ValidBytes(raw) {
		return event{}, errMalformed
	}
	read := gjson.ParseBytes(raw)
	kind, metadata := read.Get("type"), read.Get("object.metadata")
	if !read.IsObject() || kind.Exists() && kind.Type != gjson.String {
		return event{}, errMalformed
	}
	e := event{kind: watch.EventType(kind.String()), namespace: metadata.Get("namespace").String(), version: metadata.Get("resourceVersion").String()}
	before, after := cut(raw, read.Get("object.metadata.managedFields"))
	e.raw = feed.JSON.Frame(before, after)
	// Other bookmarks have no annotations.
	e.endsInitial = e.kind == watch.Bookmark && bytes.Contains(raw, []byte(metav1.InitialEventsAnnotationKey))
	return e, nil
}

// cut returns an event without its managedFields, as what is before and after them. They are up to half of a pod,
// and virtual kubelets use only those of an apply: an object that has such is returned whole.
func cut(raw []byte, managedFields gjson.Result) (before, after []byte) {
	const key = `"managedFields":`
	start, end := managedFields.Index-len(key), managedFields.Index+len(managedFields.Raw)
	if !managedFields.IsArray() || start < 0 || !bytes.HasPrefix(raw[start:], []byte(key)) || strings.Contains(managedFields.Raw, `"Apply"`) {
		return raw, nil
	}
	switch {
	case raw[start-1] == ',':
		start--
	case raw[end] == ',':
		end++
	}
	return raw[:start], raw[end:]
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
