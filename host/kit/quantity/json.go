package quantity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// maxJSONText bounds the text of an amount, maxExponent the digits of its exponent: parsing 1e-30000000
// takes seconds.
const (
	maxJSONText = 64
	maxExponent = 2
)

// CheckJSON returns an error that names the field for the first amount that decoding into a T would take
// long for. Other errors are those of decoding: it reports invalid JSON only.
func CheckJSON[T any](data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return fmt.Errorf("decoding JSON: %w", err)
	}
	if path, isRefused := findText(document, reflect.TypeFor[T]()); isRefused {
		return fmt.Errorf("%s: an amount can have at most %d characters, and an exponent of %d digits", strings.TrimPrefix(path, "."), maxJSONText, maxExponent)
	}
	return nil
}

// findText returns the path of the first amount whose text is refused.
func findText(document any, as reflect.Type) (path string, isRefused bool) {
	for as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	if !holds(as) {
		return "", false
	}
	switch value := document.(type) {
	case json.Number:
		return "", as == quantityType && isLong(value.String())
	case string:
		return "", as == quantityType && isLong(value)
	case []any:
		for i := range value {
			if as.Kind() != reflect.Slice && as.Kind() != reflect.Array {
				break
			}
			if path, isRefused := findText(value[i], as.Elem()); isRefused {
				return fmt.Sprintf("[%d]%s", i, path), true
			}
		}
	case map[string]any:
		for key := range value {
			if path, isRefused := findInMember(value[key], as, key); isRefused {
				return fmt.Sprintf(".%.*s%s", maxText, key, path), true
			}
		}
	}
	return "", false
}

func findInMember(document any, as reflect.Type, key string) (path string, isRefused bool) {
	member, found := memberOf(as, key)
	if !found {
		return "", false
	}
	return findText(document, member)
}

// memberOf returns the type of a member of a JSON object. Decoders ignore the case of names.
func memberOf(as reflect.Type, key string) (reflect.Type, bool) {
	if as.Kind() == reflect.Map {
		return as.Elem(), true
	}
	if as.Kind() != reflect.Struct || as == quantityType {
		return nil, false
	}
	for field := range as.Fields() {
		name := nameOf(field)
		if name == "" && field.Anonymous {
			if of, found := memberOf(field.Type, key); found {
				return of, true
			}
		}
		if strings.EqualFold(name, "."+key) {
			return field.Type, true
		}
	}
	return nil, false
}

// isLong reports whether parsing an amount may take long.
func isLong(text string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	return len(text) > maxJSONText || len(strings.TrimLeft(exponent, "+-0")) > maxExponent
}
