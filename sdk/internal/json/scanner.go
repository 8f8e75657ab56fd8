package json

import "strconv"

// MaxDepth bounds the nesting of a document, so that a hostile one cannot use up
// the stack of a guest.
const MaxDepth = 512

// Scanner reads one document from its beginning to its end. The first error stays:
// after it every method returns its zero value, so a caller checks Err once, at the
// end. A Scanner is not safe for concurrent use.
//
//	s := json.NewScanner(data)
//	for key, ok := s.FirstKey(); ok; key, ok = s.NextKey() {
//		switch string(key) {
//		case "name":
//			v.Name = s.String()
//		default:
//			s.Skip()
//		}
//	}
//	return s.End()
type Scanner struct {
	// data is empty after an error, so that what looks for a token finds none.
	data  []byte
	pos   int
	depth int
	err   error
}

// NewScanner returns a scanner over data, which must not change as long as anything
// that the scanner returned is in use: keys, strings and raw values share its memory.
// It is fastest if the capacity of data exceeds its length by a word, with any
// content.
func NewScanner(data []byte) *Scanner { return &Scanner{data: data} }

// Reset makes the scanner one over data, as [NewScanner] does.
func (s *Scanner) Reset(data []byte) { *s = Scanner{data: data} }

// Err returns the first error.
func (s *Scanner) Err() error { return s.err }

// End returns the first error, or an error if anything but space follows the value.
func (s *Scanner) End() error {
	if s.err == nil {
		s.space()
		if s.pos != len(s.data) {
			s.fail(ErrSyntax)
		}
	}
	return s.err
}

func (s *Scanner) fail(reason error) {
	if s.err == nil {
		s.err = &SyntaxError{Offset: s.pos, Err: reason}
		s.data = nil
	}
}

// space skips white space.
func (s *Scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, 0 at the end of the document or
// after an error.
func (s *Scanner) peek() byte {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos]
	}
	s.space()
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// literal consumes text, which must stand here.
func (s *Scanner) literal(text string) bool {
	if len(s.data)-s.pos < len(text) || string(s.data[s.pos:s.pos+len(text)]) != text {
		s.fail(ErrSyntax)
		return false
	}
	s.pos += len(text)
	return true
}

// Null consumes a null and reports whether one was there.
func (s *Scanner) Null() bool {
	if at := s.pos; at < len(s.data) && s.data[at] != 'n' && s.data[at] > ' ' {
		return false
	}
	return s.unusualNull()
}

func (s *Scanner) unusualNull() bool { return s.peek() == 'n' && s.literal("null") }

// wrong fails for a token of another type than expected: with a type error if it
// begins a JSON value, else with a syntax error.
func (s *Scanner) wrong(c byte) {
	switch {
	case c == '{', c == '[', c == '"', c == 't', c == 'f', c == '-', c >= '0' && c <= '9':
		s.fail(ErrType)
	default:
		s.fail(ErrSyntax)
	}
}

// FirstKey enters an object and returns its first key. It reports false for an
// empty object, for null and on an error; then there is nothing to leave.
func (s *Scanner) FirstKey() ([]byte, bool) {
	if !s.first('{') {
		return nil, false
	}
	return s.key()
}

// first enters an object or a list, which begins with the given bracket, and reports
// whether anything but its end follows. It reports false for null and on an error.
//
// In a guest each branch that is taken costs as much as a call, so what is usual is looked
// for first, here and below: no space, no escape.
func (s *Scanner) first(bracket byte) bool {
	if at := s.pos; at+1 < len(s.data) && s.data[at] == bracket && s.data[at+1] == '"' && s.depth < MaxDepth {
		s.pos = at + 1
		s.depth++
		return true
	}
	return s.unusualFirst(bracket)
}

func (s *Scanner) unusualFirst(bracket byte) bool {
	if c := s.peek(); c != bracket {
		if !s.Null() {
			s.wrong(c)
		}
		return false
	}
	s.pos++
	if s.depth++; s.depth > MaxDepth {
		s.fail(ErrDepth)
	}
	if s.peek() != bracket+2 { // in ASCII the closing one
		return s.err == nil
	}
	s.leave()
	return false
}

// NextKey returns the next key of the object, or false at its end or on an error.
// The value of the key before must have been consumed.
func (s *Scanner) NextKey() ([]byte, bool) {
	if at := s.pos; at < len(s.data) && s.data[at] == ',' {
		s.pos = at + 1
		return s.key()
	}
	if !s.next('}') {
		return nil, false
	}
	return s.key()
}

// next consumes a comma and reports whether there was one; else it consumes the closing
// bracket of the object or list.
func (s *Scanner) next(bracket byte) bool {
	if at := s.pos; at < len(s.data) && s.data[at] == bracket {
		s.leave()
		return false
	}
	switch s.peek() {
	case bracket:
		s.leave()
		return false
	case ',':
		s.pos++
		return true
	default:
		s.fail(ErrSyntax)
		return false
	}
}

func (s *Scanner) leave() {
	s.pos++
	s.depth--
}

// key reads a key and its colon.
func (s *Scanner) key() ([]byte, bool) {
	if start := s.pos + 1; start <= len(s.data) && s.data[start-1] == '"' {
		end := plain(s.data, start)
		if end+1 < len(s.data) && s.data[end] == '"' && s.data[end+1] == ':' {
			s.pos = end + 2
			return s.data[start:end:end], true
		}
	}
	return s.unusualKey()
}

func (s *Scanner) unusualKey() ([]byte, bool) {
	if s.peek() != '"' {
		s.fail(ErrSyntax)
		return nil, false
	}
	key := s.stringBytes()
	if s.peek() != ':' {
		s.fail(ErrSyntax)
		return nil, false
	}
	s.pos++
	return key, true
}

// FirstItem enters a list and reports whether it has an item. It reports false for
// an empty list, for null and on an error.
func (s *Scanner) FirstItem() bool { return s.first('[') }

// NextItem reports whether there is another item. The previous one must have been consumed.
func (s *Scanner) NextItem() bool { return s.next(']') }

// String returns a string value, or "" for null. It shares data's memory.
func (s *Scanner) String() string {
	if start := s.pos + 1; s.at('"') {
		if end := plain(s.data, start); end < len(s.data) && s.data[end] == '"' {
			s.pos = end + 1
			return Text(s.data[start:end:end])
		}
	}
	return s.unusualString()
}

func (s *Scanner) unusualString() string {
	if s.Null() {
		return ""
	}
	if c := s.peek(); c != '"' {
		s.wrong(c)
		return ""
	}
	return Text(s.stringBytes())
}

// Bool returns a boolean value, or false for null.
func (s *Scanner) Bool() bool {
	if s.Null() {
		return false
	}
	switch c := s.peek(); c {
	case 't':
		return s.literal("true")
	case 'f':
		s.literal("false")
	default:
		s.wrong(c)
	}
	return false
}

// Int64 returns an integer value, or 0 for null. A fraction, an exponent or a number
// outside the range is a type error.
func (s *Scanner) Int64() int64 {
	if s.Null() {
		return 0
	}
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		s.wrong(c)
		return 0
	}
	start := s.pos
	s.number()
	if s.err != nil {
		return 0
	}
	v, err := strconv.ParseInt(Text(s.data[start:s.pos]), 10, 64)
	if err != nil {
		s.pos = start
		s.fail(ErrType)
		return 0
	}
	return v
}

// Raw returns the bytes of the next value, whatever its type, and nil for null.
func (s *Scanner) Raw() []byte {
	if s.Null() {
		return nil
	}
	s.peek()
	start := s.pos
	s.Skip()
	if s.err != nil {
		return nil
	}
	return s.data[start:s.pos:s.pos]
}

// nest has a bit for each object or list around Skip, which is set for objects.
type nest [MaxDepth/64 + 1]uint64

func (n *nest) enter(depth int, object bool) {
	n[depth/64] &^= 1 << (depth % 64)
	if object {
		n[depth/64] |= 1 << (depth % 64)
	}
}

func (n *nest) object(depth int) bool { return n[depth/64]>>(depth%64)&1 != 0 }

// Skip validates and passes over the next value. It is a loop, since calls are dear.
func (s *Scanner) Skip() {
	outside := s.depth
	var in nest
	for {
		switch c := s.peek(); c {
		case '"':
			s.stringBytes()
		case '{', '[':
			if s.first(c) {
				in.enter(s.depth, c == '{')
				if c == '{' {
					s.key()
				}
				continue
			}
		default:
			s.scalar(c)
		}
		if !s.goesOn(&in, outside) {
			return
		}
	}
}

// goesOn consumes the delimiter after a value, and reports whether another value of the
// skipped object or list follows.
func (s *Scanner) goesOn(in *nest, outside int) bool {
	for s.depth > outside && s.err == nil {
		if in.object(s.depth) {
			if _, more := s.NextKey(); more {
				return true
			}
		} else if s.NextItem() {
			return true
		}
	}
	return false
}

// scalar consumes the value that begins with c and is not a string, object or list.
func (s *Scanner) scalar(c byte) {
	switch {
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	case c == '-', c >= '0' && c <= '9':
		s.number()
	default:
		s.fail(ErrSyntax)
	}
}

// digits consumes at least one digit.
func (s *Scanner) digits() {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	if s.pos == start {
		s.fail(ErrSyntax)
	}
}

func (s *Scanner) at(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

// number consumes a number as RFC 8259 writes it: no leading zero, no leading plus.
func (s *Scanner) number() {
	if s.at('-') {
		s.pos++
	}
	if s.at('0') {
		s.pos++
	} else {
		s.digits()
	}
	if s.at('.') {
		s.pos++
		s.digits()
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		s.digits()
	}
}
