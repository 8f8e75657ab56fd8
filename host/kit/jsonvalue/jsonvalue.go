// Package jsonvalue reads JSON text as values with exact integers: nil, bool, string,
// int64, float64, []any and map[string]any. It is the only JSON reader of the host beside
// encoding/json: [Split] lays out the top of a large object without decoding the rest,
// which encoding/json cannot do in one pass.
//
// Text that is not common, invalid text above all, is left to encoding/json, so values and
// error messages are always those of encoding/json.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Decode returns the value of a JSON text. Of two members with the same name the last one
// counts.
func Decode(text []byte) (any, error) {
	r := reader{text: text}
	if value, ok := r.value(); ok && r.atEnd() {
		return value, nil
	}
	return decodeSlowly(text)
}

// decodeSlowly is [Decode] with encoding/json.
func decodeSlowly(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decodeOne(decoder, &value); err != nil {
		return nil, err
	}
	return convertNumbers(value)
}

// convertNumbers replaces each json.Number by an int64 if it is an integer, else by a
// float64. It alters lists and objects in place.
func convertNumbers(value any) (any, error) {
	var err error
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
		for i := range v {
			if v[i], err = convertNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = convertNumbers(v[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// Split returns the members of a JSON object in one pass over the text. Members named in
// objects become maps themselves; all others stay json.RawMessage, which shares memory
// with the text. Members that are null are left out.
//
//	Split(pod, "metadata", "spec")
func Split(text []byte, objects ...string) (map[string]any, error) {
	r := reader{text: text}
	if members, ok := r.split(objects); ok && r.atEnd() {
		return members, nil
	}
	return splitSlowly(text, objects)
}

// splitSlowly is [Split] with encoding/json.
func splitSlowly(text []byte, objects []string) (map[string]any, error) {
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
			inner, err := splitSlowly(value, nil)
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
	return decodeOne(decoder, into)
}

// decodeOne decodes a text that is one JSON value.
func decodeOne(decoder *json.Decoder, into any) error {
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("decoding JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("decoding JSON: there is data after the JSON value")
	}
	return nil
}
