package wat

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// node is an atom, a string or a list of the text.
type node struct {
	text string
	// quoted marks a string, whose escapes text has no more.
	quoted bool
	list   []node
	isList bool
	line   int
}

// head is the first atom of a list, "" for anything else.
func (n *node) head() string {
	if !n.isList || len(n.list) == 0 || n.list[0].isList || n.list[0].quoted {
		return ""
	}
	return n.list[0].text
}

func (n *node) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: %w", n.line, fmt.Errorf(format, args...))
}

// lexer cuts the text up.
type lexer struct {
	text string
	pos  int
	line int
}

// parse reads all lists of a text.
func parse(text string) ([]node, error) {
	l := &lexer{text: text, line: 1}
	var all []node
	for {
		n, err := l.next()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.line, err)
		}
		if n == nil {
			return all, nil
		}
		if n.text == ")" && !n.quoted && !n.isList {
			return nil, n.fail("a parenthesis too many")
		}
		all = append(all, *n)
	}
}

// next reads an atom, a string, a list, or a closing parenthesis; nil at the end.
func (l *lexer) next() (*node, error) {
	if err := l.skip(); err != nil || l.pos == len(l.text) {
		return nil, err
	}
	n := &node{line: l.line}
	switch c := l.text[l.pos]; c {
	case '(':
		l.pos++
		n.isList = true
		for {
			item, err := l.next()
			switch {
			case err != nil:
				return nil, err
			case item == nil:
				return nil, fmt.Errorf("the list of line %d is not closed", n.line)
			case item.text == ")" && !item.quoted && !item.isList:
				return n, nil
			}
			n.list = append(n.list, *item)
		}
	case ')':
		l.pos++
		n.text = ")"
		return n, nil
	case '"':
		var err error
		n.quoted = true
		n.text, err = l.quoted()
		return n, err
	}
	begin := l.pos
	for l.pos < len(l.text) && !strings.ContainsRune(" \t\r\n();\"", rune(l.text[l.pos])) {
		l.pos++
	}
	if l.pos == begin {
		return nil, fmt.Errorf("unexpected %q", l.text[l.pos])
	}
	n.text = l.text[begin:l.pos]
	return n, nil
}

// skip passes over white space and comments.
func (l *lexer) skip() error {
	for l.pos < len(l.text) {
		rest := l.text[l.pos:]
		switch {
		case rest[0] == '\n':
			l.line++
			l.pos++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			l.pos++
		case strings.HasPrefix(rest, ";;"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			l.pos += end
		case strings.HasPrefix(rest, "(;"):
			end := strings.Index(rest, ";)")
			if end < 0 {
				return errors.New("a comment does not end")
			}
			l.line += strings.Count(rest[:end], "\n")
			l.pos += end + 2
		default:
			return nil
		}
	}
	return nil
}

// quoted reads a string and its escapes.
func (l *lexer) quoted() (string, error) {
	var b []byte
	for l.pos++; l.pos < len(l.text); l.pos++ {
		switch c := l.text[l.pos]; c {
		case '"':
			l.pos++
			return string(b), nil
		case '\n':
			return "", errors.New("a string does not end")
		case '\\':
			l.pos++
			rest := l.text[l.pos:]
			if rest == "" {
				return "", errors.New("a string does not end")
			}
			if plain := strings.IndexByte(`nrt"'\`, rest[0]); plain >= 0 {
				b = append(b, "\n\r\t\"'\\"[plain])
				continue
			}
			if len(rest) < 2 {
				return "", errors.New("an escape does not end")
			}
			v, err := strconv.ParseUint(rest[:2], 16, 8)
			if err != nil {
				return "", fmt.Errorf("the escape \\%s is unknown", rest[:2])
			}
			b = append(b, byte(v))
			l.pos++
		default:
			b = append(b, c)
		}
	}
	return "", errors.New("a string does not end")
}

// number reads an integer, decimal or hexadecimal, with underscores, of at most so many
// bits; unsigned values may fill them.
func number(n *node, bits int) (int64, error) {
	text := strings.ReplaceAll(n.text, "_", "")
	if v, err := strconv.ParseInt(text, 0, bits); err == nil && !n.isList {
		return v, nil
	}
	v, err := strconv.ParseUint(text, 0, bits)
	if err != nil || n.isList {
		return 0, n.fail("%q is not a number of %d bits", n.text, bits)
	}
	if bits == 32 {
		return int64(int32(v)), nil // The same bits, as the format has it.
	}
	return int64(v), nil // The same bits, as the format has it.
}
