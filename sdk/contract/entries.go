package contract

import (
	"slices"
	"strings"

	"github.com/longshore-dev/longshore/sdk/internal/json"
)

// Entry is a label or an annotation.
type Entry struct{ Key, Value string }

// Entries are labels or annotations, sorted by key, each key once. An object may have more
// than 100,000 of them; in a guest a list of them costs a tenth of what a map does.
type Entries []Entry

// Find returns the value of a key, and whether the key is there.
func (e Entries) Find(key string) (string, bool) {
	at, found := slices.BinarySearchFunc(e, key, func(have Entry, key string) int { return strings.Compare(have.Key, key) })
	if !found {
		return "", false
	}
	return e[at].Value, true
}

// AppendJSON implements [Value].
func (e Entries) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	for i := range e {
		if i > 0 {
			b = append(b, ',')
		}
		b = json.AppendKey(b, e[i].Key)
		b = json.AppendString(b, e[i].Value)
	}
	return append(b, '}')
}

// Sorted returns the entries sorted by key. Of several with one key the last one stays, as
// in a map that they are put into. The argument is reused.
func (e Entries) Sorted() Entries {
	ordered := true
	for i := 1; i < len(e) && ordered; i++ {
		ordered = e[i-1].Key < e[i].Key
	}
	if ordered {
		return e
	}
	slices.SortStableFunc(e, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	kept := e[:0]
	for i := range e {
		if i+1 < len(e) && e[i+1].Key == e[i].Key {
			continue
		}
		kept = append(kept, e[i])
	}
	return kept
}

// UnmarshalJSON implements encoding/json's Unmarshaler, for policies that run natively.
func (e *Entries) UnmarshalJSON(data []byte) error {
	s := json.NewScanner(data)
	list := Entries{}
	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
		list = append(list, Entry{Key: strings.Clone(json.Text(key)), Value: strings.Clone(s.String())})
	}
	*e = list.Sorted()
	return s.End()
}

// EntryObject is [ObjectMetadata] with labels and annotations as lists, and without a name.
//
// Example:
//
//	{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"app":"web"}}}
type EntryObject struct {
	// APIVersion and Kind are those of the local object.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the object.
	Kind string `json:"kind,omitempty"`
	// Metadata of the object.
	Metadata EntryMetadata `json:"metadata"`
}

// EntryMetadata are labels and annotations as lists.
//
// Example:
//
//	{"labels":{"app":"web"},"annotations":{"example.com/team":"a"}}
type EntryMetadata struct {
	// Labels of the object.
	Labels Entries `json:"labels,omitempty"`
	// Annotations of the object.
	Annotations Entries `json:"annotations,omitempty"`
}

// AntiAffinityPresetEntries is [AntiAffinityPresetFacts] with the labels as a list.
//
// Example:
//
//	{"object":{"metadata":{"labels":{"app":"web"}}},
//	 "local":{"metadata":{"annotations":{"liqo.io/anti-affinity-preset":"soft"}}}}
type AntiAffinityPresetEntries struct {
	// Object is the remote draft so far: its labels and annotations.
	Object EntryObject `json:"object"`
	// Local is the local pod, unfiltered.
	Local Pod `json:"local"`
}

// MetadataFilterEntries is [MetadataFilterFacts] with labels and annotations as lists.
//
// Example:
//
//	{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"team":"a"}}},"notReflected":{"labels":["internal"]}}
type MetadataFilterEntries struct {
	// Object is the object being reflected: kind, labels and annotations.
	Object EntryObject `json:"object"`
	// NotReflected are the key lists of the VirtualNode.
	NotReflected NotReflected `json:"notReflected"`
}

// MarshalJSON implements encoding/json's Marshaler, for policies that run natively.
func (e Entries) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }
