package virtualnode

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
)

// covers reports whether an object in the cluster is what is wanted, but for defaults:
// what is left open where a single value belongs may have been filled in by the API
// server, while lists and maps, which it does not fill, hold the same entries (T61).
// Both are of one type.
func covers(wanted, have any) bool {
	return valueCovers(reflect.ValueOf(wanted), reflect.ValueOf(have))
}

func valueCovers(wanted, have reflect.Value) bool {
	switch wanted.Kind() {
	case reflect.Slice:
		if wanted.Len() != have.Len() {
			return false
		}
		for i := range wanted.Len() {
			if !valueCovers(wanted.Index(i), have.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if wanted.Len() != have.Len() {
			return false
		}
		for _, key := range wanted.MapKeys() {
			if there := have.MapIndex(key); !there.IsValid() || !valueCovers(wanted.MapIndex(key), there) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		return wanted.IsNil() || !have.IsNil() && valueCovers(wanted.Elem(), have.Elem())
	case reflect.Struct:
		return structCovers(wanted, have)
	default:
		return wanted.IsZero() || wanted.Equal(have)
	}
}

func structCovers(wanted, have reflect.Value) bool {
	for i := range wanted.NumField() {
		if !wanted.Type().Field(i).IsExported() {
			// Quantities and times compare as a whole.
			return wanted.IsZero() || equality.Semantic.DeepEqual(wanted.Interface(), have.Interface())
		}
	}
	for i := range wanted.NumField() {
		if !valueCovers(wanted.Field(i), have.Field(i)) {
			return false
		}
	}
	return true
}
