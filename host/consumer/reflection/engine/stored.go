package engine

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stored is an object in a store, as such or encoded. An encoded one has no pointers, and needs a
// fifth of the memory: most of a decoded Pod is empty fields.
type stored struct {
	uid       types.UID
	version   string
	isDeleted bool
	// object is nil if the object is encoded.
	object  client.Object
	encoded []byte
}

// protobuf is implemented by the built-in kinds.
type protobuf interface {
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// wrap returns what the store keeps of an object.
func (s *store) wrap(object client.Object) *stored {
	kept := &stored{uid: object.GetUID(), version: object.GetResourceVersion(), isDeleted: object.GetDeletionTimestamp() != nil}
	if s.kind.Encoded {
		if encoded, err := encode(object); err == nil {
			kept.encoded = encoded
			return kept
		}
		// An object that cannot be encoded is kept as it is.
	}
	kept.object = object
	return kept
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
	if err := decode(kept.encoded, object); err != nil {
		// Not nil, which would mean that there is no such object.
		panic(fmt.Sprintf("decoding a cached %T: %v", object, err))
	}
	return object
}

func encode(object client.Object) ([]byte, error) {
	if p, ok := object.(protobuf); ok {
		return p.Marshal() //nolint:wrapcheck // the caller keeps the object instead
	}
	return json.Marshal(object) //nolint:wrapcheck // the same
}

func decode(data []byte, into client.Object) error {
	if p, ok := into.(protobuf); ok {
		return p.Unmarshal(data) //nolint:wrapcheck // the caller says what failed
	}
	return json.Unmarshal(data, into) //nolint:wrapcheck // the same
}
