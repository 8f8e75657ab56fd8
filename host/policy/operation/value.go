package operation

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Values of a document are those of package jsonvalue: nil, bool, string, int64, float64,
// []any, map[string]any. A document may also hold other Go values that marshal to JSON (a
// []corev1.Toleration, for example). An operation that looks inside [Normalize]s them, so
// that a caller need not convert a whole pod for one field.

// Normalize turns any Go value that marshals to JSON into a value of a document. It returns
// values of a document as they are, without looking inside.
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
		return decode(v)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", value, err)
	}
	return decode(data)
}

func decode(data []byte) (any, error) {
	return jsonvalue.Decode(data)
}

// Equal compares two values of documents: numbers by value, members with a null value like
// absent ones. A value that does not marshal is equal to no value.
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
		if _, compared := x[key]; !compared && value != nil {
			return false
		}
	}
	return true
}

// CheckSettings returns an error for settings that are too long or nested too deep. Call it
// before decoding them.
func CheckSettings(settings []byte) error {
	if len(settings) > contract.MaxSettingsBytes {
		return fmt.Errorf("settings have %d bytes, more than %d; the operator must shorten them", len(settings), contract.MaxSettingsBytes)
	}
	if depth := jsonvalue.Depth(settings); depth > contract.MaxValueDepth {
		return fmt.Errorf("settings are nested %d deep, more than %d; the operator must flatten them", depth, contract.MaxValueDepth)
	}
	return nil
}
