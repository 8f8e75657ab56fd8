package document

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// openGo is [Open] for Go values whose parts need no conversion. It reports false for others.
func openGo(v reflect.Value) (any, bool) {
	for v.Kind() == reflect.Pointer && !v.IsNil() && !marshals(v.Type()) {
		v = v.Elem()
	}
	if isNil(v) {
		return nil, true
	}
	if fields, ok := fieldsOf(v.Type()); ok {
		return fields.members(v), true
	}
	if marshals(v.Type()) {
		return nil, false
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), true
	case reflect.Bool:
		return v.Bool(), true
	case reflect.Int, reflect.Int32, reflect.Int64:
		return v.Int(), true
	case reflect.Slice:
		return openSlice(v)
	case reflect.Map:
		texts, ok := v.Interface().(map[string]string)
		if !ok {
			return nil, false
		}
		members := make(map[string]any, len(texts))
		for name, text := range texts {
			members[name] = text
		}
		return members, true
	default:
		return nil, false
	}
}

func openSlice(v reflect.Value) (any, bool) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return nil, false
	}
	items := make([]any, v.Len())
	for i := range items {
		items[i] = reference(v.Index(i))
	}
	return items, true
}

// field is a JSON field of a struct type.
type field struct {
	name      string
	index     []int
	omitEmpty bool
	omitZero  bool
}

// fields are the JSON fields of a struct type.
type fields []field

// fieldsByType caches [fieldsOf]. The value is nil for types that it rejects.
var fieldsByType sync.Map

// fieldsOf returns the JSON fields of a struct type. It reports false for other types, for
// types that marshal themselves, and for tag options that it does not support.
func fieldsOf(t reflect.Type) (fields, bool) {
	if cached, ok := fieldsByType.Load(t); ok {
		known, ok := cached.(fields)
		return known, ok && known != nil
	}
	found, ok := fields(nil), false
	if t.Kind() == reflect.Struct && !marshals(t) && !marshals(reflect.PointerTo(t)) {
		found, ok = appendFields(fields{}, t, nil)
		slices.SortFunc(found, func(a, b field) int { return strings.Compare(a.name, b.name) })
		for i := 1; i < len(found); i++ {
			ok = ok && found[i].name != found[i-1].name // shadowed fields
		}
	}
	if !ok {
		found = nil
	}
	fieldsByType.Store(t, found)
	return found, ok
}

// appendFields appends the JSON fields of a struct type and of the structs embedded in it.
func appendFields(found fields, t reflect.Type, index []int) (fields, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		at := append(slices.Clone(index), i)
		if tag == "-" {
			continue
		}
		if f.Anonymous && name == "" {
			if f.Type.Kind() != reflect.Struct {
				return nil, false
			}
			var ok bool
			if found, ok = appendFields(found, f.Type, at); !ok {
				return nil, false
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		list := strings.Split(options, ",")
		if slices.Contains(list, "string") {
			return nil, false
		}
		found = append(found, field{
			name: name, index: at,
			omitEmpty: slices.Contains(list, "omitempty"), omitZero: slices.Contains(list, "omitzero"),
		})
	}
	return found, true
}

// members returns the fields of a struct as an object, without those that encoding/json omits or encodes as null.
func (f fields) members(v reflect.Value) map[string]any {
	members := make(map[string]any, len(f)/3) // most fields of a Kubernetes object are empty
	for i := range f {
		value := v.FieldByIndex(f[i].index)
		if isNil(value) || f[i].omitEmpty && isEmpty(value) || f[i].omitZero && isZero(value) {
			continue
		}
		members[f[i].name] = reference(value)
	}
	return members
}

// reference returns the value without copying it if it is an addressable struct.
func reference(v reflect.Value) any {
	if v.Kind() == reflect.Struct && v.CanAddr() {
		return v.Addr().Interface()
	}
	if v.Kind() == reflect.String && !marshals(v.Type()) {
		return v.String()
	}
	return v.Interface()
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	marshaling    sync.Map // reflect.Type to bool
)

// marshals reports whether a type encodes itself.
func marshals(t reflect.Type) bool {
	if cached, ok := marshaling.Load(t); ok {
		return cached == true
	}
	result := t.Implements(marshaler) || t.Implements(textMarshaler) || t == reflect.TypeFor[json.Number]()
	marshaling.Store(t, result)
	return result
}

// isNil reports whether encoding/json encodes a value as null.
func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		return v.IsNil()
	default:
		return false
	}
}

// isEmpty reports whether omitempty omits a value.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

// isZero reports whether omitzero omits a value.
func isZero(v reflect.Value) bool {
	if zeroer, ok := v.Interface().(interface{ IsZero() bool }); ok {
		return zeroer.IsZero()
	}
	if v.CanAddr() {
		if zeroer, ok := v.Addr().Interface().(interface{ IsZero() bool }); ok {
			return zeroer.IsZero()
		}
	}
	return v.IsZero()
}

// CopyMember copies one field, by its JSON name, from one struct to another of the same type. Both arguments are
// pointers.
func CopyMember(to, from any, name string) error {
	target, source := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	known, ok := fieldsOf(target.Type())
	if !ok || target.Type() != source.Type() {
		return fmt.Errorf("cannot copy fields from %T to %T", from, to)
	}
	at, found := slices.BinarySearchFunc(known, name, func(f field, name string) int { return strings.Compare(f.name, name) })
	if !found {
		return fmt.Errorf("%s has no field %q", target.Type(), name)
	}
	target.FieldByIndex(known[at].index).Set(source.FieldByIndex(known[at].index))
	return nil
}
