package engine

import (
	"strings"
	"unicode"
)

// Plain returns text of a module or a tenant as one line for messages, logs and terminals:
// valid UTF-8, with a space in place of each line break, control character and invisible or
// direction-changing character.
func Plain(text string) string {
	return clean(text, func(rune) bool { return false })
}

// PlainWithin is [Plain], cut to at most the given number of bytes.
func PlainWithin(text string, most int) string {
	text = Plain(text)
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// PlainLines is [Plain] for text of several lines: it keeps line breaks and tabs.
func PlainLines(text string) string {
	return clean(text, func(r rune) bool { return r == '\n' || r == '\t' })
}

func clean(text string, keep func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || keep(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
