// Package testkit is what tests of several packages of the host share. Only tests import
// it.
package testkit

import "reflect"

// Fill sets every field below a value to something that is not zero, lists and maps to
// one item, down to a depth; what cannot be set is left out. It is for tests that walk a
// type of Kubernetes, so that a field which an upgrade adds is noticed.
func Fill(v reflect.Value, depth int) {
	if depth == 0 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		Fill(v.Elem(), depth-1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		Fill(v.Index(0), depth-1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		Fill(key, depth-1)
		Fill(value, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			Fill(v.Field(i), depth-1)
		}
	default:
	}
}
