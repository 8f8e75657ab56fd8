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

// Fields are the JSON fields of a struct type, sorted by name. They let a policy's facts be
// taken from typed objects without converting the whole object.
type Fields []Field

// Field is a JSON field of a struct type.
type Field struct {
	// Name in JSON.
	Name      string
	index     []int
	omitEmpty bool
	omitZero  bool
}

// fieldsByType caches [FieldsOf]. The value is nil for types that it rejects.
var fieldsByType sync.Map

// FieldsOf returns the JSON fields of a struct type. It reports false for other types, for
// types that marshal themselves, and for tag options that it does not support.
func FieldsOf(t reflect.Type) (Fields, bool) {
	if cached, ok := fieldsByType.Load(t); ok {
		fields, ok := cached.(Fields)
		return fields, ok && fields != nil
	}
	fields, ok := Fields(nil), false
	if t.Kind() == reflect.Struct && !Marshals(t) && !Marshals(reflect.PointerTo(t)) {
		fields, ok = appendFields(Fields{}, t, nil)
		slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
		for i := 1; i < len(fields); i++ {
			ok = ok && fields[i].Name != fields[i-1].Name // shadowed fields
		}
	}
	if !ok {
		fields = nil
	}
	fieldsByType.Store(t, fields)
	return fields, ok
}

// appendFields appends the JSON fields of a struct type and of the structs embedded in it.
func appendFields(fields Fields, t reflect.Type, index []int) (Fields, bool) {
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
			if fields, ok = appendFields(fields, f.Type, at); !ok {
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

// Value returns the field of a struct, or false if encoding/json omits it.
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

// Get returns a field by its JSON name, nil if it is unknown or omitted.
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

// Reference returns the value without copying it if it is an addressable struct.
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
	marshals := t.Implements(marshaler) || t.Implements(textMarshaler)
	marshaling.Store(t, marshals)
	return marshals
}

// IsNil reports whether encoding/json encodes a value as null.
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

// Members returns the fields of the struct that pointer points to as an object. The values
// are the struct's own; nothing is converted. Fields that encoding/json omits are omitted.
func Members(pointer any) (map[string]any, error) {
	v := reflect.ValueOf(pointer)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, fmt.Errorf("%T is not a pointer to a struct", pointer)
	}
	fields, ok := FieldsOf(v.Type().Elem())
	if !ok {
		return nil, fmt.Errorf("the fields of %T cannot be listed", pointer)
	}
	members := make(map[string]any, 16)
	for i := range fields {
		if field, present := fields[i].Value(v.Elem()); present {
			members[fields[i].Name] = Reference(field)
		}
	}
	return members, nil
}

// CopyMember copies one field, by its JSON name, from one struct to another of the same
// type. Both arguments are pointers.
func CopyMember(to, from any, name string) error {
	target, source := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	fields, ok := FieldsOf(target.Type())
	if !ok || target.Type() != source.Type() {
		return fmt.Errorf("cannot copy fields from %T to %T", from, to)
	}
	at, found := fields.find(name)
	if !found {
		return fmt.Errorf("%s has no field %q", target.Type(), name)
	}
	target.FieldByIndex(fields[at].index).Set(source.FieldByIndex(fields[at].index))
	return nil
}
