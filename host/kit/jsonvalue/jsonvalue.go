// Package jsonvalue reads JSON text with Kubernetes' reader: objects laid out without decoding what is in them,
// values with exact integers, and texts that must have known members only.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	kjson "sigs.k8s.io/json"
)

// Decode returns the value of a JSON text: nil, bool, string, int64, float64, []any or map[string]any. Of two
// members with the same name the last one counts.
func Decode(text []byte) (any, error) {
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &value); err != nil {
		return nil, fmt.Errorf("decoding JSON: %w", err)
	}
	return value, nil
}

// Split returns the members of a JSON object. Members named in objects become maps themselves; all others stay
// json.RawMessage. Members that are null are left out.
//
//	Split(pod, "metadata", "spec")
func Split(text []byte, objects ...string) (map[string]any, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if raw == nil {
		return nil, errors.New("not a JSON object")
	}
	members := make(map[string]any, len(raw))
	for name, value := range raw {
		switch {
		case string(value) == "null":
		case slices.Contains(objects, name):
			inner, err := Split(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			members[name] = inner
		default:
			members[name] = value
		}
	}
	return members, nil
}

// Depth returns how deep lists and objects are nested in a JSON text. It does not recurse,
// so callers use it to bound text from policies before they decode it.
func Depth(text []byte) int {
	deepest, level := 0, 0
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
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

// DecodeStrictly decodes one JSON text into a value. Unknown members, and data after the text, are
// errors.
func DecodeStrictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("decoding JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("decoding JSON: there is data after the JSON value")
	}
	return nil
}
