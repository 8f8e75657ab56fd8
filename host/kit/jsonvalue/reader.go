package jsonvalue

import (
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// reader reads common JSON text without reflection. Its methods report false for text that
// they do not accept; the position is undefined then. What they accept, encoding/json
// accepts with the same value.
type reader struct {
	text  []byte
	at    int
	depth int
}

// maxDepth bounds the recursion of a reader.
const maxDepth = 128

// atEnd reports whether only space follows.
func (r *reader) atEnd() bool {
	r.peek()
	return r.at == len(r.text)
}

// peek skips space and returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return c
		}
	}
	return 0
}

func (r *reader) value() (any, bool) {
	switch r.peek() {
	case '{':
		members := map[string]any{}
		return members, r.object(func(key []byte) bool {
			value, ok := r.value()
			members[string(key)] = value
			return ok
		})
	case '[':
		items := []any{}
		ok := r.list(']', func() bool {
			value, ok := r.value()
			items = append(items, value)
			return ok
		})
		return items, ok
	case '"':
		content, escaped, ok := r.quoted()
		if !ok || !escaped {
			return string(content), ok
		}
		return unescape(content)
	case 't':
		return true, r.literal("true")
	case 'f':
		return false, r.literal("false")
	case 'n':
		return nil, r.literal("null")
	default:
		return r.number()
	}
}

// skip passes over a value without decoding it.
func (r *reader) skip() bool {
	switch r.peek() {
	case '{':
		return r.object(func([]byte) bool { return r.skip() })
	case '[':
		return r.list(']', r.skip)
	case '"':
		content, escaped, ok := r.quoted()
		if ok && escaped {
			_, ok = unescape(content)
		}
		return ok
	default:
		_, ok := r.value()
		return ok
	}
}

// split reads an object; see [Split].
func (r *reader) split(objects []string) (map[string]any, bool) {
	members := make(map[string]any, 16)
	if r.peek() != '{' {
		return nil, false
	}
	ok := r.object(func(key []byte) bool {
		c := r.peek()
		if c != 'n' && slices.Contains(objects, string(key)) {
			inner, ok := r.split(nil)
			members[string(key)] = inner
			return ok
		}
		start := r.at
		if !r.skip() {
			return false
		}
		if c == 'n' {
			delete(members, string(key))
		} else {
			members[string(key)] = json.RawMessage(r.text[start:r.at:r.at])
		}
		return true
	})
	return members, ok
}

// object reads an object and calls read with the name of each member, where its value
// begins.
func (r *reader) object(read func(key []byte) bool) bool {
	return r.list('}', func() bool {
		if r.peek() != '"' {
			return false
		}
		key, escaped, ok := r.quoted()
		if ok && escaped {
			var text string
			text, ok = unescape(key)
			key = []byte(text)
		}
		if !ok || r.peek() != ':' {
			return false
		}
		r.at++
		return read(key)
	})
}

// list reads what is between an opening bracket and end, and calls read for each item.
func (r *reader) list(end byte, read func() bool) bool {
	r.at++
	if r.peek() == end {
		r.at++
		return true
	}
	if r.depth++; r.depth > maxDepth {
		return false
	}
	for read() {
		c := r.peek()
		r.at++
		if c == end {
			r.depth--
			return true
		}
		if c != ',' {
			break
		}
	}
	return false
}

// quoted reads a string and returns the text between its quotes, and whether it has
// escapes.
func (r *reader) quoted() (content []byte, escaped, ok bool) {
	r.at++
	start, ascii := r.at, true
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			content = r.text[start:r.at:r.at]
			r.at++
			return content, escaped, ascii || utf8.Valid(content)
		case c == '\\':
			escaped = true
			r.at++
		case c < ' ':
			return nil, false, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false, false
}

// unescape resolves the escapes in the text of a string.
func unescape(content []byte) (string, bool) {
	quoted := make([]byte, 0, len(content)+2)
	quoted = append(append(append(quoted, '"'), content...), '"')
	var text string
	err := json.Unmarshal(quoted, &text)
	return text, err == nil
}

func (r *reader) literal(text string) bool {
	if len(r.text)-r.at < len(text) || string(r.text[r.at:r.at+len(text)]) != text {
		return false
	}
	r.at += len(text)
	return true
}

// number reads an int64 if it is an integer, else a float64.
func (r *reader) number() (any, bool) {
	start := r.at
	r.accept("-")
	integer := true
	if !r.accept("0") && !r.digits() {
		return nil, false
	}
	if r.accept(".") {
		if integer = false; !r.digits() {
			return nil, false
		}
	}
	if r.accept("eE") {
		r.accept("+-")
		if integer = false; !r.digits() {
			return nil, false
		}
	}
	text := string(r.text[start:r.at])
	if integer {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, true
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// accept reads one byte if it is one of those given.
func (r *reader) accept(of string) bool {
	for i := range len(of) {
		if r.at < len(r.text) && r.text[r.at] == of[i] {
			r.at++
			return true
		}
	}
	return false
}

func (r *reader) digits() bool {
	start := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	return r.at > start
}
