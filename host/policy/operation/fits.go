package operation

import "reflect"

// Fits reports that a value of a document can be read strictly as a Go type: every member
// is a field, and every value has its field's type. False means that it may not: values
// and types that are unusual are not judged.
func Fits(value any, t reflect.Type) bool {
	for t.Kind() == reflect.Pointer && !Marshals(t) {
		t = t.Elem()
	}
	if Marshals(t) || Marshals(reflect.PointerTo(t)) {
		return false
	}
	switch v := value.(type) {
	case string:
		return t.Kind() == reflect.String
	case bool:
		return t.Kind() == reflect.Bool
	case int64:
		return t.Kind() == reflect.Int64 || t.Kind() == reflect.Int32 && int64(int32(v)) == v
	case []any:
		return v != nil && t.Kind() == reflect.Slice && fitsAll(v, t.Elem())
	case map[string]any:
		return v != nil && fitsMembers(v, t)
	default:
		return false
	}
}

// fitsAll takes the type of the items; bytes are no list in JSON.
func fitsAll(items []any, t reflect.Type) bool {
	if t.Kind() == reflect.Uint8 {
		return false
	}
	for _, item := range items {
		if !Fits(item, t) {
			return false
		}
	}
	return true
}

func fitsMembers(members map[string]any, t reflect.Type) bool {
	if t.Kind() == reflect.Map {
		if t.Key().Kind() != reflect.String || Marshals(t.Key()) {
			return false
		}
		for _, value := range members {
			if !Fits(value, t.Elem()) {
				return false
			}
		}
		return true
	}
	fields, ok := FieldsOf(t)
	if !ok {
		return false
	}
	for name, value := range members {
		at, found := fields.find(name)
		if !found || !Fits(value, t.FieldByIndex(fields[at].index).Type) {
			return false
		}
	}
	return true
}
