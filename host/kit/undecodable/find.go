package undecodable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxText bounds the text of an amount, maxExponent the digits of its exponent: parsing 1e-30000000
	// takes seconds.
	maxText     = 64
	maxExponent = 2
	// maxKey bounds a key in an error, in bytes.
	maxKey = 40
)

var quantityType = reflect.TypeFor[resource.Quantity]()

// CheckAmounts returns an error that names the field for the first amount in JSON that decoding into a T
// would take long for. Other errors are those of decoding: it reports invalid JSON only.
func CheckAmounts[T any](data []byte) error { return checkAmounts(data, reflect.TypeFor[T]()) }

func checkAmounts(data []byte, as reflect.Type) error {
	path, isRefused, err := findAmount(data, as, isLong)
	if err == nil && isRefused {
		err = fmt.Errorf("%s: an amount can have at most %d characters, and an exponent of %d digits", path, maxText, maxExponent)
	}
	return err
}

// findAmount returns the path of the first amount that is refused.
func findAmount(data []byte, as reflect.Type, refuses func(text string) bool) (path string, isRefused bool, err error) {
	return find(data, as, func(value any, as reflect.Type) bool { return as == quantityType && refuses(fmt.Sprint(value)) })
}

// isLong reports whether parsing an amount may take long.
func isLong(text string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	return len(text) > maxText || len(strings.TrimLeft(exponent, "+-0")) > maxExponent
}

// fieldOf returns the path of the first value in JSON that cannot be decoded as a type says; empty if there
// is none.
func fieldOf(data []byte, as reflect.Type) string {
	path, _, err := find(data, as, func(value any, as reflect.Type) bool {
		text, err := json.Marshal(value)
		return err != nil || json.Unmarshal(text, reflect.New(as).Interface()) != nil
	})
	if err != nil {
		return ""
	}
	return path
}

// find returns the path of the first value in JSON that is refused. It asks for those that a type does not
// take apart.
func find(data []byte, as reflect.Type, refuses func(value any, as reflect.Type) bool) (path string, isRefused bool, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return "", false, fmt.Errorf("decoding JSON: %w", err)
	}
	path, isRefused = findIn(document, as, refuses)
	return strings.TrimPrefix(path, "."), isRefused, nil
}

func findIn(document any, as reflect.Type, refuses func(value any, as reflect.Type) bool) (path string, isRefused bool) {
	for as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	switch values := document.(type) {
	case []any:
		if as.Kind() != reflect.Slice && as.Kind() != reflect.Array {
			break
		}
		for i := range values {
			if path, isRefused := findIn(values[i], as.Elem(), refuses); isRefused {
				return fmt.Sprintf("[%d]%s", i, path), true
			}
		}
		return "", false
	case map[string]any:
		if as.Kind() != reflect.Map && as.Kind() != reflect.Struct || reflect.PointerTo(as).Implements(unmarshaler) {
			break
		}
		for key := range values {
			member, isKnown := memberOf(as, key)
			if !isKnown {
				continue
			}
			if path, isRefused := findIn(values[key], member, refuses); isRefused {
				return fmt.Sprintf(".%.*s%s", maxKey, key, path), true
			}
		}
		return "", false
	}
	return "", document != nil && refuses(document, as)
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// memberOf returns the type of a member of a JSON object. Decoders ignore the case of names.
func memberOf(as reflect.Type, key string) (reflect.Type, bool) {
	if as.Kind() == reflect.Map {
		return as.Elem(), true
	}
	if as.Kind() != reflect.Struct {
		return nil, false
	}
	for field := range as.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous {
			if of, isKnown := memberOf(field.Type, key); isKnown {
				return of, true
			}
		}
		if name != "" && strings.EqualFold(name, key) {
			return field.Type, true
		}
	}
	return nil, false
}
