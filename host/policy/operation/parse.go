package operation

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// parser reads JSON text without reflection. After it gave up it may stand anywhere. It knows the usual only: where it gives up,
// encoding/json has the last word, on values and on messages. What it accepts,
// encoding/json accepts with the same value.
type parser struct {
	text  []byte
	at    int
	depth int
}

// parserDepth is how deep the parser follows lists and objects.
const parserDepth = 128

// parse returns the value of a document that is the whole text, false when it gives up.
func parse(text []byte) (any, bool) {
	p := parser{text: text}
	value, ok := p.value()
	return value, ok && p.end()
}

// end reports whether nothing but space follows.
func (p *parser) end() bool {
	p.next()
	return p.at == len(p.text)
}

// next skips space and returns the byte that follows, 0 at the end.
func (p *parser) next() byte {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; c {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return c
		}
	}
	return 0
}

func (p *parser) literal(text string) bool {
	if len(p.text)-p.at < len(text) || string(p.text[p.at:p.at+len(text)]) != text {
		return false
	}
	p.at += len(text)
	return true
}

func (p *parser) value() (any, bool) {
	switch c := p.next(); c {
	case '{':
		members := map[string]any{}
		return members, p.members(func(key []byte) bool {
			value, ok := p.value()
			members[string(key)] = value
			return ok
		})
	case '[':
		items := []any{}
		ok := p.items(func() bool {
			value, ok := p.value()
			items = append(items, value)
			return ok
		})
		return items, ok
	case '"':
		return p.string()
	case 't':
		return true, p.literal("true")
	case 'f':
		return false, p.literal("false")
	case 'n':
		return nil, p.literal("null")
	default:
		return p.number()
	}
}

// raw passes over a value and returns its text.
func (p *parser) raw() ([]byte, bool) {
	p.next()
	from := p.at
	if !p.skip() {
		return nil, false
	}
	return p.text[from:p.at:p.at], true
}

// open are the lists and objects that the parser is in, and which of them are objects.
type open struct {
	objects [parserDepth/64 + 1]uint64
	depth   int
}

func (o *open) enter(object bool) {
	o.depth++
	o.objects[o.depth/64] &^= 1 << (o.depth % 64)
	if object {
		o.objects[o.depth/64] |= 1 << (o.depth % 64)
	}
}

func (o *open) inObject() bool { return o.objects[o.depth/64]&(1<<(o.depth%64)) != 0 }

// skip passes over a value. Most of a document is only passed over, so this is a loop
// where the others are recursive.
func (p *parser) skip() bool {
	var in open
	for {
		switch c := p.next(); c {
		case '{', '[':
			p.at++
			if p.next() == c+2 { // in ASCII the closing one
				p.at++
				break
			}
			if in.depth+p.depth >= parserDepth {
				return false
			}
			in.enter(c == '{')
			if c == '{' && !p.skipKey() {
				return false
			}
			continue
		case '"':
			if !p.skipString() {
				return false
			}
		default:
			if _, ok := p.value(); !ok {
				return false
			}
		}
		if more, ok := p.skipEnds(&in); !more {
			return ok
		}
	}
}

// skipEnds passes over what follows a value, up to the next one if there are more.
func (p *parser) skipEnds(in *open) (more, ok bool) {
	for ; in.depth > 0; in.depth-- {
		end := byte(']')
		if in.inObject() {
			end = '}'
		}
		c := p.next()
		p.at++
		if c == ',' {
			ok := end == ']' || p.skipKey()
			return ok, ok
		}
		if c != end {
			return false, false
		}
	}
	return false, true
}

// skipKey passes over a member's name and its colon.
func (p *parser) skipKey() bool {
	if p.next() != '"' || !p.skipString() || p.next() != ':' {
		return false
	}
	p.at++
	return true
}

// skipString passes over a string, eight bytes at once as long as they are usual.
func (p *parser) skipString() bool {
	at := p.at + 1
	for ; at+8 <= len(p.text); at += 8 {
		// Subtracting n from each byte sets the top bit of the lowest byte that is less than
		// n; equality is "less than one" after xor. Borrows disturb higher bytes only.
		const every, top = 0x0101010101010101, 0x8080808080808080
		w := binary.LittleEndian.Uint64(p.text[at:])
		hits := (w | (w - ' '*every) | ((w ^ '"'*every) - every) | ((w ^ '\\'*every) - every)) & top
		if hits != 0 {
			at += bits.TrailingZeros64(hits) / 8
			break
		}
	}
	for at < len(p.text) && p.text[at] != '"' {
		if c := p.text[at]; c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return p.skipUnusual()
		}
		at++
	}
	p.at = at + 1
	return at < len(p.text)
}

// skipUnusual passes over a string with escapes, which must be good ones, or beyond ASCII.
func (p *parser) skipUnusual() bool {
	_, ok := p.string()
	return ok
}

// members reads an object, which begins here, and calls read for each member's value.
func (p *parser) members(read func(key []byte) bool) bool {
	return p.list('}', func() bool {
		if p.next() != '"' {
			return false
		}
		content, escaped, ok := p.quoted()
		if !ok {
			return false
		}
		if escaped {
			text, ok := unescaped(content)
			if !ok {
				return false
			}
			content = []byte(text)
		}
		if p.next() != ':' {
			return false
		}
		p.at++
		return read(content)
	})
}

// items reads a list, which begins here, and calls read for each item.
func (p *parser) items(read func() bool) bool { return p.list(']', read) }

func (p *parser) list(end byte, read func() bool) bool {
	p.at++
	if p.next() == end {
		p.at++
		return true
	}
	if p.depth++; p.depth > parserDepth {
		return false
	}
	for read() {
		c := p.next()
		p.at++
		if c == end {
			p.depth--
			return true
		}
		if c != ',' {
			break
		}
	}
	return false
}

// string reads a string, which begins here.
func (p *parser) string() (string, bool) {
	content, escaped, ok := p.quoted()
	if !ok {
		return "", false
	}
	if escaped {
		return unescaped(content)
	}
	return string(content), true
}

// quoted passes over a string and returns what stands between its quotes, and whether
// there is an escape in it. Text that is not UTF-8 is not usual.
func (p *parser) quoted() (content []byte, escaped, ok bool) {
	p.at++
	from, ascii := p.at, true
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			content = p.text[from:p.at:p.at]
			p.at++
			return content, escaped, ascii || utf8.Valid(content)
		case c == '\\':
			escaped = true
			p.at++
		case c < ' ':
			return nil, false, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false, false
}

// unescaped leaves escapes to encoding/json.
func unescaped(content []byte) (string, bool) {
	quoted := make([]byte, 0, len(content)+2)
	quoted = append(append(append(quoted, '"'), content...), '"')
	var text string
	err := json.Unmarshal(quoted, &text)
	return text, err == nil
}

// number reads a number: an int64 where it is an integer, else a float64.
func (p *parser) number() (any, bool) {
	from := p.at
	if p.one("-") {
		from = p.at - 1
	}
	integer := true
	if !p.one("0") && !p.digits() {
		return nil, false
	}
	if p.one(".") {
		if integer = false; !p.digits() {
			return nil, false
		}
	}
	if p.one("eE") {
		p.one("+-")
		if integer = false; !p.digits() {
			return nil, false
		}
	}
	text := string(p.text[from:p.at])
	if integer {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, true
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// one consumes a byte if it is one of those given.
func (p *parser) one(of string) bool {
	for i := range len(of) {
		if p.at < len(p.text) && p.text[p.at] == of[i] {
			p.at++
			return true
		}
	}
	return false
}

func (p *parser) digits() bool {
	from := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	return p.at > from
}
