package codec

import (
	"github.com/longshore-dev/longshore/sdk/contract"
	"github.com/longshore-dev/longshore/sdk/internal/arena"
	"github.com/longshore-dev/longshore/sdk/internal/json"
)

var entryLists = arena.New[contract.Entry](many)

// entries reads labels or annotations as a list, or nil for null.
func entries(s *json.Scanner) contract.Entries {
	if s.Null() {
		return nil
	}
	items := entryLists.Open()
	for key, more := s.FirstKey(); more; key, more = s.NextKey() {
		items = append(items, contract.Entry{Key: json.Text(key), Value: s.String()})
	}
	return contract.Entries(entryLists.Close(items)).Sorted()
}

func entryMetadata(s *json.Scanner, m *contract.EntryMetadata) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "labels":
			m.Labels = entries(s)
		case "annotations":
			m.Annotations = entries(s)
		default:
			s.Skip()
		}
	}
}

func entryObject(s *json.Scanner, o *contract.EntryObject) {
	typedObject(s, &o.APIVersion, &o.Kind, &o.Metadata, entryMetadata)
}

// MetadataFilterEntries reads the facts of MetadataFilter with labels and annotations as
// lists.
func MetadataFilterEntries(s *json.Scanner, f *contract.MetadataFilterEntries) {
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		switch string(key) {
		case "object":
			entryObject(s, &f.Object)
		case "notReflected":
			notReflected(s, &f.NotReflected)
		default:
			s.Skip()
		}
	}
}
