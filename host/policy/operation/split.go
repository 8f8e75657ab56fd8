package operation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Split lays a JSON object out as a document in one pass: members at the paths become
// objects, all others stay raw text until somebody looks at them. The text must be
// valid JSON, as the API server sends it; what is raw is not checked.
//
//	Split(pod, "metadata", "spec")
func Split(text []byte, objects ...string) (map[string]any, error) {
	s := &scanner{text: text}
	return s.object(objects)
}

// scanner walks over JSON text.
type scanner struct {
	text []byte
	at   int
}

var errCut = errors.New("the JSON text ends too early")

// object reads an object: members that are named are read as objects themselves, the
// others are raw text, and those that are null are left out.
func (s *scanner) object(objects []string) (map[string]any, error) {
	if s.next() != '{' {
		return nil, errors.New("the JSON text is no object")
	}
	doc := make(map[string]any, 16)
	if s.at++; s.next() == '}' {
		s.at++
		return doc, nil
	}
	for {
		name, err := s.name()
		if err != nil {
			return nil, err
		}
		delete(doc, name) // of two members with one name the last counts
		value, err := s.value(slices.Contains(objects, name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if value != nil {
			doc[name] = value
		}
		end := s.next()
		s.at++
		switch end {
		case ',':
		case '}':
			return doc, nil
		default:
			return nil, errCut
		}
	}
}

// value reads the value of a member, nil for null.
func (s *scanner) value(asObject bool) (any, error) {
	if s.next() == '{' && asObject {
		return s.object(nil)
	}
	from := s.at
	if err := s.skipValue(); err != nil {
		return nil, err
	}
	raw := s.text[from:s.at:s.at]
	switch {
	case string(raw) == "null":
		return nil, nil
	case asObject:
		return nil, errors.New("the JSON text is no object")
	default:
		return json.RawMessage(raw), nil
	}
}

// name reads `"name":`.
func (s *scanner) name() (string, error) {
	s.next()
	from := s.at
	if err := s.skipString(); err != nil {
		return "", err
	}
	name, err := unquote(s.text[from:s.at])
	if err != nil {
		return "", err
	}
	if s.next() != ':' {
		return "", fmt.Errorf("member %q has no value", name)
	}
	s.at++
	return name, nil
}

func unquote(quoted []byte) (string, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var name string
	if err := json.Unmarshal(quoted, &name); err != nil {
		return "", fmt.Errorf("reading a member's name: %w", err)
	}
	return name, nil
}

// next skips spaces and returns the next byte, 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) skipString() error {
	if s.at >= len(s.text) || s.text[s.at] != '"' {
		return errors.New("a string is expected")
	}
	for s.at++; s.at < len(s.text); {
		end := bytes.IndexByte(s.text[s.at:], '"')
		if end < 0 {
			return errCut
		}
		escape := bytes.IndexByte(s.text[s.at:s.at+end], '\\')
		if escape < 0 {
			s.at += end + 1
			return nil
		}
		s.at += escape + 2
	}
	return errCut
}

func (s *scanner) skipValue() error {
	level := 0
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case '"':
			if err := s.skipString(); err != nil {
				return err
			}
			if level == 0 {
				return nil
			}
			continue
		case '{', '[':
			level++
		case '}', ']':
			if level == 0 {
				return nil // the end of the object around a scalar
			}
			if level--; level == 0 {
				s.at++
				return nil
			}
		case ',', ' ', '\t', '\r', '\n':
			if level == 0 {
				return nil
			}
		}
		s.at++
	}
	return errCut
}
