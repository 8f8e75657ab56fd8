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
	data  []byte
	pos   int
	depth int
	err   error
}

// NewScanner returns a scanner over data, which must not change as long as anything
// that the scanner returned is in use: keys, strings and raw values share its memory.
func NewScanner(data []byte) *Scanner { return &Scanner{data: data} }

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
	if s.err != nil {
		return 0
	}
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos]
	}
	s.space()
	if s.pos >= len(s.data) {
		return 0
	}
	return s.data[s.pos]
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
	return s.peek() == 'n' && s.literal("null")
}

// wrong fails for a token that is not the type asked for: as a type error if it
// begins some other JSON value, as a syntax error otherwise.
func (s *Scanner) wrong(c byte) {
	switch {
	case c == '{', c == '[', c == '"', c == 't', c == 'f', c == '-', c >= '0' && c <= '9':
		s.fail(ErrType)
	default:
		s.fail(ErrSyntax)
	}
}

func (s *Scanner) enter() bool {
	s.pos++
	s.depth++
	if s.depth > MaxDepth {
		s.fail(ErrDepth)
		return false
	}
	return true
}

// FirstKey enters an object and returns its first key. It reports false for an
// empty object, for null and on an error; then there is nothing to leave.
func (s *Scanner) FirstKey() ([]byte, bool) {
	if s.Null() {
		return nil, false
	}
	if c := s.peek(); c != '{' {
		s.wrong(c)
		return nil, false
	}
	if !s.enter() {
		return nil, false
	}
	if s.peek() == '}' {
		s.leave()
		return nil, false
	}
	return s.key()
}

// NextKey returns the next key of the object, or false at its end or on an error.
// The value of the key before must have been consumed.
func (s *Scanner) NextKey() ([]byte, bool) {
	switch s.peek() {
	case ',':
		s.pos++
		return s.key()
	case '}':
		s.leave()
	default:
		s.fail(ErrSyntax)
	}
	return nil, false
}

func (s *Scanner) leave() {
	s.pos++
	s.depth--
}

// key reads a key and its colon. In a guest each branch that is taken costs as much as a
// call, so what is usual is looked for first, here and in String: no space and no escape.
func (s *Scanner) key() ([]byte, bool) {
	if s.at('"') {
		start := s.pos + 1
		end := plain(s.data, start)
		if end+1 < len(s.data) && s.data[end] == '"' && s.data[end+1] == ':' {
			s.pos = end + 2
			return s.data[start:end:end], true
		}
	}
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
func (s *Scanner) FirstItem() bool {
	if s.Null() {
		return false
	}
	if c := s.peek(); c != '[' {
		s.wrong(c)
		return false
	}
	if !s.enter() {
		return false
	}
	if s.peek() == ']' {
		s.leave()
		return false
	}
	return s.err == nil
}

// NextItem reports whether the list goes on. The item before must have been consumed.
func (s *Scanner) NextItem() bool {
	switch s.peek() {
	case ',':
		s.pos++
		return true
	case ']':
		s.leave()
	default:
		s.fail(ErrSyntax)
	}
	return false
}

// String returns a string value, or "" for null. It shares data's memory.
func (s *Scanner) String() string {
	if s.err == nil && s.at('"') {
		start := s.pos + 1
		if end := plain(s.data, start); end < len(s.data) && s.data[end] == '"' {
			s.pos = end + 1
			return Text(s.data[start:end:end])
		}
	}
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

// Skip validates and passes over the next value.
func (s *Scanner) Skip() {
	switch c := s.peek(); c {
	case '{':
		for _, ok := s.FirstKey(); ok; _, ok = s.NextKey() {
			s.Skip()
		}
	case '[':
		for ok := s.FirstItem(); ok; ok = s.NextItem() {
			s.Skip()
		}
	case '"':
		s.stringBytes()
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		if c == '-' || (c >= '0' && c <= '9') {
			s.number()
			return
		}
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
