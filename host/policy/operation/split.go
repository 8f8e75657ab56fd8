package operation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Split lays a JSON object out as a document in one pass: members at the paths become
// objects, all others stay raw text until somebody looks at them, which shares memory
// with the text. Members that are null are left out.
//
//	Split(pod, "metadata", "spec")
func Split(text []byte, objects ...string) (map[string]any, error) {
	p := parser{text: text}
	if doc, ok := p.split(objects); ok && p.end() {
		return doc, nil
	}
	return split(text, objects)
}

// split reads an object: members that are named are read as objects themselves.
func (p *parser) split(objects []string) (map[string]any, bool) {
	doc := make(map[string]any, 16)
	ok := p.object(func(key []byte) bool {
		if c := p.next(); len(objects) > 0 && slices.Contains(objects, string(key)) && c != 'n' {
			members, ok := p.split(nil)
			doc[string(key)] = members
			return ok
		}
		raw, ok := p.raw()
		if string(raw) == "null" {
			delete(doc, string(key)) // of two members with one name the last counts
		} else {
			doc[string(key)] = json.RawMessage(raw)
		}
		return ok
	})
	return doc, ok
}

// split lays out what is unusual, which mostly is wrong, and says what is wrong.
func split(text []byte, objects []string) (map[string]any, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("the JSON text is no object: %w", err)
	}
	if members == nil {
		return nil, errors.New("the JSON text is no object")
	}
	doc := make(map[string]any, len(members))
	for name, raw := range members {
		switch {
		case string(raw) == "null":
		case slices.Contains(objects, name):
			inner, err := split(raw, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			doc[name] = inner
		default:
			doc[name] = raw
		}
	}
	return doc, nil
}
