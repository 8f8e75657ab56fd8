package json

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends value as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, as encoding/json does it.
func AppendString(b []byte, value string) []byte {
	data, n := octets(value), len(b)
	if end := n + 1 + len(data); end < cap(b) && putPlain(b[n+1:end], data) {
		// Most strings are plain, and most fit.
		b = b[:end+1]
		b[n], b[end] = '"', '"'
		return b
	}
	return appendQuoted(b, data)
}

func appendQuoted(b, data []byte) []byte {
	b = append(b, '"')
	start := 0
	for i := plain(data, 0); i < len(data); i = plain(data, i) {
		if data[i] >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, data[start:i]...)
				b = append(b, `\ufffd`...)
				start = i + size
			}
			i += size
			continue
		}
		b = append(b, data[start:i]...)
		b = appendEscape(b, data[i])
		i++
		start = i
	}
	b = append(b, data[start:]...)
	return append(b, '"')
}

// appendEscape appends a quote, backslash or control character.
func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	default:
		return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}

// AppendInt appends a number.
func AppendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// AppendBool appends a boolean.
func AppendBool(b []byte, v bool) []byte { return strconv.AppendBool(b, v) }

// AppendStrings appends a list of strings; nil is written as an empty list.
func AppendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, item := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, item)
	}
	return append(b, ']')
}

// AppendStringMap appends an object of strings, keys sorted, so that equal maps
// give equal bytes; nil is written as an empty object.
func AppendStringMap(b []byte, m map[string]string) []byte {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendKey(b, key)
		b = AppendString(b, m[key])
	}
	return append(b, '}')
}

// AppendKey appends a key and its colon.
func AppendKey(b []byte, key string) []byte {
	b = AppendString(b, key)
	return append(b, ':')
}

// AppendMember appends a comma unless it is the object's first member, then the
// key and its colon. The key must be plain: it is written as it is.
//
//	b = append(b, '{')
//	b = json.AppendMember(b, "op")
//	b = json.AppendString(b, "set")
func AppendMember(b []byte, key string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

// AppendStringMember appends a member unless its value is empty: Go's omitempty.
func AppendStringMember(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	return AppendString(AppendMember(b, key), value)
}
