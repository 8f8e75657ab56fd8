package chain

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/longshore-dev/longshore/host/kit/jsonvalue"
)

// appendJSON appends any value as canonical JSON: keys sorted, no spaces, no null members. Equal documents give
// equal bytes, whether they are maps or structs, so that they share cached answers.
func appendJSON(b []byte, value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", value, err)
	}
	decoded, err := jsonvalue.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("decoding an encoded %T: %w", value, err)
	}
	dropNulls(decoded)
	text := bytes.NewBuffer(b)
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(decoded); err != nil {
		return nil, fmt.Errorf("encoding a decoded %T: %w", value, err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// dropNulls removes the members of objects that are null.
func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			if member == nil {
				delete(v, key)
				continue
			}
			dropNulls(member)
		}
	case []any:
		for _, item := range v {
			dropNulls(item)
		}
	}
}
