// Package document holds the objects that policies read and change. It is the only package that knows what a
// document is made of.
//
// A document is a JSON object in Go, a map[string]any. Its members are the values of package jsonvalue: nil, bool,
// string, int64, float64, []any, map[string]any. Any other Go value that marshals to JSON stands for its JSON form:
// a *corev1.Affinity, for example, or a json.RawMessage. [Open] turns such a value into one of package jsonvalue, one
// level at a time, so that a whole pod is not converted for one of its fields. A null member is like an absent one.
//
// A document is never altered: [With] copies one level and shares the rest, so that [Changed] need not look inside.
package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
)

// Open returns a value as one of package jsonvalue. The members or items in it stay as they are, and a struct's
// fields are its members.
func Open(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, string, int64, float64:
		return value, nil
	case map[string]any:
		if v != nil {
			return value, nil
		}
	case []any:
		if v != nil {
			return value, nil
		}
	case json.RawMessage:
		if v != nil {
			return jsonvalue.Decode(v)
		}
	}
	if opened, ok := openGo(reflect.ValueOf(value)); ok {
		return opened, nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", value, err)
	}
	return jsonvalue.Decode(data)
}

// TypeError reports a value that has another type of JSON than its reader needs. Found and Want describe the types.
type TypeError struct{ Found, Want string }

// The types of JSON, for messages.
const (
	objectType = "an object"
	textType   = "a string"
	// ListType is that of lists.
	ListType = "a list"
)

// Error implements error.
func (e *TypeError) Error() string {
	return fmt.Sprintf("found %s, want %s", e.Found, e.Want)
}

// Object opens a value that must be an object. It returns nil for an absent one.
func Object(value any) (map[string]any, error) {
	return openAs[map[string]any](value, objectType)
}

// List opens a value that must be a list. It returns nil for an absent one.
func List(value any) ([]any, error) {
	return openAs[[]any](value, ListType)
}

// Text opens a value that must be a string. It returns "" for an absent one.
func Text(value any) (string, error) {
	return openAs[string](value, textType)
}

func openAs[T any](value any, want string) (opened T, err error) {
	value, err = Open(value)
	if err != nil || value == nil {
		return opened, err
	}
	opened, ok := value.(T)
	if !ok {
		return opened, &TypeError{Found: jsonType(value), Want: want}
	}
	return opened, nil
}

// jsonType describes the type of an opened value.
func jsonType(value any) string {
	switch value.(type) {
	case map[string]any:
		return objectType
	case []any:
		return ListType
	case string:
		return textType
	case bool:
		return "a boolean"
	default:
		return "a number"
	}
}

// Member opens a member of an object that must be an object itself. It returns nil for an absent one.
func Member(object map[string]any, name string) (map[string]any, error) {
	member, err := Object(object[name])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return member, nil
}

// With returns a copy of an object with one member replaced, or removed if the value is nil.
func With(object map[string]any, name string, value any) map[string]any {
	next := make(map[string]any, len(object)+1)
	maps.Copy(next, object)
	if value == nil {
		delete(next, name)
	} else {
		next[name] = value
	}
	return next
}

// Changed returns the names of the members that differ between an object and what became of it, sorted. Members
// that nobody changed share their memory, so it does not look inside.
func Changed(before, after map[string]any) []string {
	var names []string
	for name, value := range after {
		if old, had := before[name]; !had || !IsSame(old, value) {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, has := after[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// IsSame reports whether two values share their memory or, for scalars, are equal.
func IsSame(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if !x.IsValid() || !y.IsValid() || x.Type() != y.Type() {
		return x.IsValid() == y.IsValid() && !x.IsValid()
	}
	switch x.Kind() {
	case reflect.Map:
		return x.Pointer() == y.Pointer()
	case reflect.Slice:
		return x.Pointer() == y.Pointer() && x.Len() == y.Len()
	default:
		return x.Comparable() && a == b
	}
}

// Equal compares two values: numbers by value, members with a null value like absent ones. A value that does not
// marshal is equal to no value.
func Equal(a, b any) bool {
	a, errA := Open(a)
	b, errB := Open(b)
	if errA != nil || errB != nil {
		return false
	}
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && equalMembers(x, y)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, Equal)
	case int64:
		if y, ok := b.(float64); ok {
			return equalNumbers(x, y)
		}
	case float64:
		if y, ok := b.(int64); ok {
			return equalNumbers(y, x)
		}
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	default:
		return a == b
	}
}

// equalNumbers is false beyond 2^53, where a float64 stands for several integers.
func equalNumbers(i int64, f float64) bool {
	return math.Abs(f) < 1<<53 && f == math.Trunc(f) && int64(f) == i
}

func equalMembers(x, y map[string]any) bool {
	for name, value := range x {
		if !Equal(value, y[name]) {
			return false
		}
	}
	for name, value := range y {
		if _, compared := x[name]; !compared && !Equal(value, nil) {
			return false
		}
	}
	return true
}
