package chain

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/host/policy/operation"
)

// appendJSON appends any value as canonical JSON: keys sorted, no spaces, only necessary
// escapes. Equal documents give equal bytes, whether they are maps or structs, so that they
// share cached answers.
func appendJSON(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...), nil
	case string:
		return appendString(b, v), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case map[string]any:
		return appendMap(b, v, appendJSON)
	case map[string]string:
		return appendMap(b, v, func(b []byte, s string) ([]byte, error) { return appendString(b, s), nil })
	case []any:
		if v == nil {
			return append(b, "null"...), nil
		}
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendJSON(b, item); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	}
	return appendValue(b, reflect.ValueOf(value))
}

// appendMap omits null members.
func appendMap[V any](b []byte, members map[string]V, appendMember func([]byte, V) ([]byte, error)) ([]byte, error) {
	if members == nil {
		return append(b, "null"...), nil
	}
	var few [16]string
	keys := few[:0]
	for key := range members {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	b = append(b, '{')
	empty := len(b)
	for _, key := range keys {
		start := len(b)
		if start > empty {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		at := len(b)
		var err error
		if b, err = appendMember(b, members[key]); err != nil {
			return nil, err
		}
		if string(b[at:]) == "null" {
			b = b[:start]
		}
	}
	return append(b, '}'), nil
}

// appendValue appends a value by reflection, with the tags of encoding/json.
func appendValue(b []byte, v reflect.Value) ([]byte, error) {
	if operation.IsNil(v) {
		return append(b, "null"...), nil
	}
	if operation.Marshals(v.Type()) || (v.CanAddr() && operation.Marshals(reflect.PointerTo(v.Type()))) {
		return appendMarshaled(b, v)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return appendValue(b, v.Elem())
	case reflect.String:
		return appendString(b, v.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	default:
		return appendComposite(b, v)
	}
}

// appendComposite appends structs, lists and maps, and leaves other values to encoding/json.
func appendComposite(b []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.Struct:
		if fields, ok := operation.FieldsOf(v.Type()); ok {
			return appendFields(b, fields, v)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			return appendSlice(b, v)
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String && !operation.Marshals(v.Type().Key()) {
			return appendReflectedMap(b, v)
		}
	default: // other numbers, arrays, and values without a JSON form
	}
	return appendMarshaled(b, v)
}

func appendSlice(b []byte, v reflect.Value) ([]byte, error) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendValue(b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendReflectedMap(b []byte, v reflect.Value) ([]byte, error) {
	members := make(map[string]reflect.Value, v.Len())
	for iterator := v.MapRange(); iterator.Next(); {
		members[iterator.Key().String()] = iterator.Value()
	}
	return appendMap(b, members, appendValue)
}

// appendMarshaled appends what encoding/json encodes, in canonical form.
func appendMarshaled(b []byte, v reflect.Value) ([]byte, error) {
	value := v.Interface()
	if v.CanAddr() {
		value = v.Addr().Interface()
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding a %s: %w", v.Type(), err)
	}
	if len(data) == 0 || (data[0] != '{' && data[0] != '[' && data[0] != '"') {
		return append(b, data...), nil
	}
	decoded, err := jsonvalue.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("decoding an encoded %s: %w", v.Type(), err)
	}
	return appendJSON(b, decoded)
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string. Like encoding/json, it replaces invalid UTF-8 by
// U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}

// appendFields appends a struct with its members sorted. It omits null members.
func appendFields(b []byte, fields operation.Fields, v reflect.Value) ([]byte, error) {
	b = append(b, '{')
	empty := len(b)
	for i := range fields {
		field, ok := fields[i].Value(v)
		if !ok {
			continue
		}
		start := len(b)
		if start > empty {
			b = append(b, ',')
		}
		b = append(appendString(b, fields[i].Name), ':')
		at := len(b)
		var err error
		if b, err = appendValue(b, field); err != nil {
			return nil, fmt.Errorf("%s: %w", fields[i].Name, err)
		}
		if string(b[at:]) == "null" {
			b = b[:start]
		}
	}
	return append(b, '}'), nil
}
