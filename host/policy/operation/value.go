package operation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/longshore-dev/longshore/sdk/contract"
)

// Values of a document are those of encoding/json with exact integers: nil, bool,
// string, int64, float64, []any, map[string]any. A document may also hold other Go
// values that marshal to JSON (a typed []corev1.Toleration, say): they are
// [Normalize]d when an operation has to look inside, and left alone otherwise, so
// that a caller need not convert a whole pod for one field.

// Decode parses JSON text into a value of a document.
func Decode(data []byte) (any, error) {
	if value, ok := parse(data); ok {
		return value, nil
	}
	return decode(data)
}

// decode decodes what is unusual, which mostly is wrong, and says what is wrong.
func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("decoding JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decoding JSON: there is more than one value")
	}
	return exact(value)
}

// exact replaces json.Number by int64 where it is an integer, else by float64, in place.
func exact(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("number %s is out of range", v)
		}
		return f, nil
	case []any:
		for i, item := range v {
			exactItem, err := exact(item)
			if err != nil {
				return nil, err
			}
			v[i] = exactItem
		}
	case map[string]any:
		for key, item := range v {
			exactItem, err := exact(item)
			if err != nil {
				return nil, err
			}
			v[key] = exactItem
		}
	}
	return value, nil
}

// Normalize turns any Go value that marshals to JSON into a value of a document.
// Values of a document are returned as they are, without looking inside.
func Normalize(value any) (any, error) {
	switch v := value.(type) {
	case nil, bool, string, int64, float64, []any, map[string]any:
		return value, nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case []string:
		if v == nil {
			return nil, nil
		}
		items := make([]any, len(v))
		for i := range v {
			items[i] = v[i]
		}
		return items, nil
	case map[string]string:
		if v == nil {
			return nil, nil
		}
		members := make(map[string]any, len(v))
		for key := range v {
			members[key] = v[key]
		}
		return members, nil
	case json.RawMessage:
		return Decode(v)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", value, err)
	}
	return Decode(data)
}

// Equal compares two values of documents: numbers by value, members with a null
// value like absent ones. Values that do not marshal are equal to nothing.
func Equal(a, b any) bool {
	a, errA := Normalize(a)
	b, errB := Normalize(b)
	if errA != nil || errB != nil {
		return false
	}
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && equalMembers(x, y)
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	case int64:
		switch y := b.(type) {
		case int64:
			return x == y
		case float64:
			return equalNumbers(x, y)
		}
		return false
	case float64:
		if y, ok := b.(int64); ok {
			return equalNumbers(y, x)
		}
	}
	return a == b
}

// equalNumbers is false beyond 2^53, where a float64 stands for several integers.
func equalNumbers(i int64, f float64) bool {
	return math.Abs(f) < 1<<53 && f == math.Trunc(f) && int64(f) == i
}

func equalMembers(x, y map[string]any) bool {
	for key, value := range x {
		if !Equal(value, y[key]) {
			return false
		}
	}
	for key, value := range y {
		if _, seen := x[key]; !seen && value != nil {
			return false
		}
	}
	return true
}

// Depth returns how deep lists and objects are nested in JSON text, without
// decoding it: hostile nesting must not reach the recursive decoder.
func Depth(data []byte) int {
	deepest, level := 0, 0
	inString := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// CheckSettings refuses settings that are too long or too deep, before anything reads them.
func CheckSettings(settings []byte) error {
	if len(settings) > contract.MaxSettingsBytes {
		return fmt.Errorf("settings have %d bytes, more than %d; the operator must shorten them", len(settings), contract.MaxSettingsBytes)
	}
	if depth := Depth(settings); depth > contract.MaxValueDepth {
		return fmt.Errorf("settings are nested %d deep, more than %d; the operator must flatten them", depth, contract.MaxValueDepth)
	}
	return nil
}
