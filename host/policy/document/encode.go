package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Append appends a value as canonical JSON: keys sorted, no spaces, no null members. Equal values give equal bytes,
// whether they are maps or structs.
func Append(b []byte, value any) ([]byte, error) {
	value, err := Open(value)
	if err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case map[string]any:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if b, err = appendMember(b, name, v[name]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = Append(b, item); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case string:
		return appendString(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	default:
		return appendText(b, v)
	}
}

// appendMember appends a member to an object that has been begun. It appends nothing if the value is null.
func appendMember(b []byte, name string, value any) ([]byte, error) {
	start := len(b)
	if b[start-1] != '{' {
		b = append(b, ',')
	}
	b, err := appendString(b, name)
	if err != nil {
		return nil, err
	}
	b = append(b, ':')
	at := len(b)
	if b, err = Append(b, value); err != nil {
		return nil, err
	}
	if string(b[at:]) == "null" {
		return b[:start], nil
	}
	return b, nil
}

// appendString appends a string. Most need no escapes.
func appendString(b []byte, text string) ([]byte, error) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			// Like encoding/json, but as the character itself: each invalid byte becomes U+FFFD.
			return appendText(b, string([]rune(text)))
		}
	}
	return append(append(append(b, '"'), text...), '"'), nil
}

// appendText appends a scalar as encoding/json encodes it.
func appendText(b []byte, scalar any) ([]byte, error) {
	text := bytes.NewBuffer(b)
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(scalar); err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", scalar, err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
