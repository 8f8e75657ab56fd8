package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stored is an object in a store, as such or encoded. An encoded one has no pointers, and needs a
// fifth of the memory: most of a decoded Pod is empty fields. Labels and applied fields, which many
// objects have in common, are not encoded.
type stored struct {
	// uid and version of an encoded object are parts of its text (within).
	uid       types.UID
	version   string
	isDeleted bool
	// labels are those of the object, as formatLabels returns them. The pods of a workload share them.
	labels unique.Handle[string]
	// applied are the fields of the object that this reflection has applied, as [metav1.FieldsV1]; "" for
	// none. Objects of the same form share them.
	applied unique.Handle[string]
	// object is nil if the object is encoded.
	object  client.Object
	encoded string
}

// protobuf is implemented by the built-in kinds.
type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// wrap returns what the store keeps of an object.
func (s *store) wrap(object client.Object) *stored {
	kept := &stored{
		uid: object.GetUID(), version: object.GetResourceVersion(), isDeleted: object.GetDeletionTimestamp() != nil,
		labels: unique.Make(formatLabels(object.GetLabels())),
	}
	if s.kind.Encoded {
		if encoded, err := encodeRest(object); err == nil {
			kept.encoded, kept.applied = string(encoded), unique.Make(appliedSet(object))
			kept.uid, kept.version = types.UID(within(kept.encoded, string(kept.uid))), within(kept.encoded, kept.version)
			return kept
		}
		// An object that cannot be encoded is kept as it is.
	}
	kept.object = object
	return kept
}

// within returns a string as a part of a text that contains it, which needs no memory of its own.
func within(text, part string) string {
	if i := strings.Index(text, part); i >= 0 {
		return text[i : i+len(part)]
	}
	return part
}

// encodeRest encodes an object without what stored has beside it.
func encodeRest(object client.Object) ([]byte, error) {
	labels, fields := object.GetLabels(), object.GetManagedFields()
	defer func() {
		object.SetLabels(labels)
		object.SetManagedFields(fields)
	}()
	object.SetLabels(nil)
	object.SetManagedFields(nil)
	return encode(object)
}

// unwrap returns the object, or nil for nil. An encoded one is the caller's own.
func (s *store) unwrap(kept *stored) client.Object {
	switch {
	case kept == nil:
		return nil
	case kept.object != nil:
		return kept.object
	}
	object := s.kind.New()
	if err := decode([]byte(kept.encoded), object); err != nil {
		// Not nil, which would mean that there is no such object.
		panic(fmt.Sprintf("decoding a cached %T: %v", object, err))
	}
	object.SetLabels(parseLabels(kept.labels.Value()))
	if fields := kept.applied.Value(); fields != "" {
		object.SetManagedFields(appliedEntry(metav1.NewFieldsV1(fields)))
	}
	return object
}

// formatLabels returns labels with a comma between them. Names and values of labels have none.
func formatLabels(set labels.Set) string { return set.String() }

// parseLabels returns the labels of formatLabels.
func parseLabels(formatted string) labels.Set {
	if formatted == "" {
		return nil
	}
	set := make(labels.Set, strings.Count(formatted, ",")+1)
	for label := range strings.SplitSeq(formatted, ",") {
		key, value, _ := strings.Cut(label, "=")
		set[key] = value
	}
	return set
}

// appliedSet returns the applied fields of an object that was transformed.
func appliedSet(object client.Object) string {
	entries := object.GetManagedFields()
	if len(entries) == 0 || entries[0].FieldsV1 == nil {
		return ""
	}
	return entries[0].FieldsV1.GetRawString()
}

// hasOnlyLabels reports whether the labels of the object are those of a set.
func (s *stored) hasOnlyLabels(set labels.Set) bool { return s.labels.Value() == formatLabels(set) }

func encode(object client.Object) ([]byte, error) {
	if p, ok := object.(protobuf); ok {
		return p.Marshal()
	}
	return json.Marshal(object) //nolint:wrapcheck // the same
}

func decode(data []byte, into client.Object) error {
	if p, ok := into.(protobuf); ok {
		return p.Unmarshal(data)
	}
	return json.Unmarshal(data, into) //nolint:wrapcheck // the same
}

// newerVersion reports whether a is later than b. One that cannot be compared is.
func newerVersion(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// knownNewerVersion reports whether a is later than b, and both can be compared.
func knownNewerVersion(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
