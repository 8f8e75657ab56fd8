package virtualnode

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
)

// matchesDesired reports whether the current object equals the desired one, apart from
// defaults: the API server may set single values that are zero in the desired object. It
// does not extend lists and maps, which must have the same entries. Both arguments have
// the same type.
func matchesDesired(desired, current any) bool {
	return valueMatches(reflect.ValueOf(desired), reflect.ValueOf(current))
}

func valueMatches(desired, current reflect.Value) bool {
	switch desired.Kind() {
	case reflect.Slice:
		if desired.Len() != current.Len() {
			return false
		}
		for i := range desired.Len() {
			if !valueMatches(desired.Index(i), current.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if desired.Len() != current.Len() {
			return false
		}
		for _, key := range desired.MapKeys() {
			if entry := current.MapIndex(key); !entry.IsValid() || !valueMatches(desired.MapIndex(key), entry) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		return desired.IsNil() || !current.IsNil() && valueMatches(desired.Elem(), current.Elem())
	case reflect.Struct:
		return structMatches(desired, current)
	default:
		return desired.IsZero() || desired.Equal(current)
	}
}

func structMatches(desired, current reflect.Value) bool {
	for i := range desired.NumField() {
		if !desired.Type().Field(i).IsExported() {
			// Quantities and times compare as a whole.
			return desired.IsZero() || equality.Semantic.DeepEqual(desired.Interface(), current.Interface())
		}
	}
	for i := range desired.NumField() {
		if !valueMatches(desired.Field(i), current.Field(i)) {
			return false
		}
	}
	return true
}
