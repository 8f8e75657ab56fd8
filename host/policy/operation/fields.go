package operation

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Fields are the JSON fields of a struct type, sorted by name.
type Fields []Field

// Field is a JSON field of a struct type.
type Field struct {
	// Name in JSON.
	Name      string
	index     []int
	omitEmpty bool
	omitZero  bool
}

// known caches FieldsOf: reflect.Type to Fields, nil for types that we leave to
// encoding/json.
var known sync.Map

// FieldsOf returns the JSON fields of a struct type; false for other types, for those
// that marshal themselves, and for those whose tags say more than we read.
func FieldsOf(t reflect.Type) (Fields, bool) {
	if cached, ok := known.Load(t); ok {
		fields, ok := cached.(Fields)
		return fields, ok && fields != nil
	}
	fields, ok := Fields(nil), false
	if t.Kind() == reflect.Struct && !Marshals(t) && !Marshals(reflect.PointerTo(t)) {
		fields, ok = collect(t, Fields{}, nil)
		slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
		for i := 1; i < len(fields); i++ {
			ok = ok && fields[i].Name != fields[i-1].Name // shadowed fields
		}
	}
	if !ok {
		fields = nil
	}
	known.Store(t, fields)
	return fields, ok
}

func collect(t reflect.Type, fields Fields, index []int) (Fields, bool) {
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
			if fields, ok = collect(f.Type, fields, at); !ok {
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
		fields = append(fields, Field{
			Name: name, index: at,
			omitEmpty: slices.Contains(list, "omitempty"), omitZero: slices.Contains(list, "omitzero"),
		})
	}
	return fields, true
}

// Value returns the field of a struct, or false when encoding/json leaves it out.
func (f *Field) Value(v reflect.Value) (reflect.Value, bool) {
	field := v
	for _, i := range f.index {
		field = field.Field(i)
	}
	if IsNil(field) || (f.omitEmpty && isEmpty(field)) || (f.omitZero && isZero(field)) {
		return reflect.Value{}, false
	}
	return field, true
}

func (fields Fields) find(name string) (int, bool) {
	return slices.BinarySearchFunc(fields, name, func(f Field, name string) int { return strings.Compare(f.Name, name) })
}

// Get returns a field by its JSON name, nil when it is absent or left out.
func (fields Fields) Get(v reflect.Value, name string) any {
	at, found := fields.find(name)
	if !found {
		return nil
	}
	field, ok := fields[at].Value(v)
	if !ok {
		return nil
	}
	return Reference(field)
}

// Reference returns the value for further projection, without copying structs.
func Reference(v reflect.Value) any {
	if v.Kind() == reflect.Struct && v.CanAddr() {
		return v.Addr().Interface()
	}
	if v.Kind() == reflect.String {
		return v.String()
	}
	return v.Interface()
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	marshaling    sync.Map // reflect.Type to bool
)

// Marshals reports whether a type encodes itself.
func Marshals(t reflect.Type) bool {
	if cached, ok := marshaling.Load(t); ok {
		return cached == true
	}
	does := t.Implements(marshaler) || t.Implements(textMarshaler)
	marshaling.Store(t, does)
	return does
}

// IsNil reports whether a value is null in JSON.
func IsNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		return v.IsNil()
	default:
		return false
	}
}

// isEmpty is encoding/json's omitempty.
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

// isZero is encoding/json's omitzero.
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

// Members returns the fields of the struct that pointer points to as an object whose
// values are the fields themselves: nothing below is converted. Fields that
// encoding/json leaves out are left out.
func Members(pointer any) (map[string]any, error) {
	v := reflect.ValueOf(pointer)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, fmt.Errorf("a %T is no pointer to a struct", pointer)
	}
	fields, ok := FieldsOf(v.Type().Elem())
	if !ok {
		return nil, fmt.Errorf("a %T is no pointer to a struct whose fields can be listed", pointer)
	}
	members := make(map[string]any, 16)
	for i := range fields {
		if field, present := fields[i].Value(v.Elem()); present {
			members[fields[i].Name] = Reference(field)
		}
	}
	return members, nil
}

// CopyMember sets the field of that JSON name in the struct that to points to as it is
// in the one that from points to; both are of one type.
func CopyMember(to, from any, name string) error {
	target, source := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	fields, ok := FieldsOf(target.Type())
	if !ok || target.Type() != source.Type() {
		return fmt.Errorf("cannot copy fields from a %T to a %T", from, to)
	}
	at, found := fields.find(name)
	if !found {
		return fmt.Errorf("a %s has no field %q", target.Type(), name)
	}
	target.FieldByIndex(fields[at].index).Set(source.FieldByIndex(fields[at].index))
	return nil
}
