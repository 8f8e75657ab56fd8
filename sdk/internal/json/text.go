package json

import (
	"unicode/utf16"
	"unicode/utf8"
)

// stringBytes consumes a string token, which begins here, and returns its
// contents: a part of the document if there is no escape in it, a copy otherwise.
func (s *Scanner) stringBytes() []byte {
	s.pos++
	start := s.pos
	ascii := true
	for i := plain(s.data, start); i < len(s.data); i = plain(s.data, i+1) {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			content := s.data[start:i:i]
			if !ascii && !utf8.Valid(content) {
				s.pos = start
				s.fail(ErrUTF8)
				return nil
			}
			return content
		case c == '\\':
			return s.escaped(start, i)
		case c < ' ':
			s.pos = i
			s.fail(ErrSyntax)
			return nil
		default:
			ascii = false
		}
	}
	s.pos = len(s.data)
	s.fail(ErrSyntax)
	return nil
}

// escaped continues with a string whose first backslash is at i.
func (s *Scanner) escaped(start, i int) []byte {
	out := append(make([]byte, 0, i-start+32), s.data[start:i]...)
	s.pos = i
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			s.pos++
			if !utf8.Valid(out) {
				s.pos = start
				s.fail(ErrUTF8)
				return nil
			}
			return out
		case c == '\\':
			out = s.escape(out)
			if s.err != nil {
				return nil
			}
		case c < ' ':
			s.fail(ErrSyntax)
			return nil
		default:
			out = append(out, c)
			s.pos++
		}
	}
	s.fail(ErrSyntax)
	return nil
}

// escape consumes one escape sequence and appends what it stands for.
func (s *Scanner) escape(out []byte) []byte {
	s.pos++
	if s.pos >= len(s.data) {
		s.fail(ErrSyntax)
		return out
	}
	c := s.data[s.pos]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return s.unicode(out)
	default:
		s.fail(ErrSyntax)
		return out
	}
	s.pos++
	return append(out, c)
}

// unicode consumes the u of an escape and its four digits, and a second escape if
// the first is the high half of a surrogate pair.
func (s *Scanner) unicode(out []byte) []byte {
	r := s.hex4()
	if s.err == nil && utf16.IsSurrogate(r) {
		low := rune(0)
		if s.at('\\') && s.pos+1 < len(s.data) && s.data[s.pos+1] == 'u' {
			s.pos++
			low = s.hex4()
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			s.fail(ErrUTF8)
		}
	}
	return utf8.AppendRune(out, r)
}

// hex4 consumes the u that stands here and four hexadecimal digits.
func (s *Scanner) hex4() rune {
	s.pos++
	var r rune
	for range 4 {
		var d byte
		if s.pos < len(s.data) {
			d = s.data[s.pos]
		}
		switch {
		case d >= '0' && d <= '9':
			d -= '0'
		case d >= 'a' && d <= 'f':
			d -= 'a' - 10
		case d >= 'A' && d <= 'F':
			d -= 'A' - 10
		default:
			s.fail(ErrSyntax)
			return 0
		}
		r = r<<4 | rune(d)
		s.pos++
	}
	return r
}
