// Package plaintext makes text that modules, tenants or other clusters write harmless to those who read it: in
// messages, statuses, events, logs and terminals.
package plaintext

import (
	"fmt"
	"strings"
	"unicode"
)

// Line returns a text as one line: valid UTF-8, with a space in place of each line break, control character and
// invisible or direction-changing character.
func Line(text string) string {
	return clean(text, func(rune) bool { return false })
}

// Within is [Line], cut to at most the given number of bytes.
func Within(text string, most int) string {
	text = Line(text)
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Lines is [Line] for text of several lines: it keeps line breaks and tabs.
func Lines(text string) string {
	return clean(text, func(r rune) bool { return r == '\n' || r == '\t' })
}

// Names returns the first names, at most the given number, and how many more there are.
func Names(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Messages makes the texts of the fields message and reason plain, anywhere in a value of JSON, in place.
func Messages(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if text, isText := field.(string); isText && (key == "message" || key == "reason") {
				value[key] = Line(text)
				continue
			}
			Messages(field)
		}
	case []any:
		for _, item := range value {
			Messages(item)
		}
	}
}

func clean(text string, keep func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || keep(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
