package plaintext

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTextIsPlain(t *testing.T) {
	for text, want := range map[string]struct{ line, lines string }{
		"plain":                        {"plain", "plain"},
		"größer 日本 😀":                  {"größer 日本 😀", "größer 日本 😀"},
		"a\u202Eb":                     {"a b", "a b"},
		"a\nb\tc":                      {"a b c", "a\nb\tc"},
		"a\r\x1b[31mb\x00\u2028\u200b": {"a  [31mb   ", "a  [31mb   "},
		"a\xffb":                       {"a\uFFFDb", "a\uFFFDb"},
	} {
		assert.Equal(t, want.line, Line(text), "%q", text)
		assert.Equal(t, want.lines, Lines(text), "%q", text)
		assert.Equal(t, want.line, Line(want.line), "twice")
	}
	assert.Equal(t, "ab…", Within("ab\u202Ec", 2))
	assert.Equal(t, "a b", Within("a\nb", 3))
}

func TestMessagesArePlain(t *testing.T) {
	status := map[string]any{
		"certificate": "a\nb", "message": "a\nb", "number": int64(1),
		"conditions": []any{map[string]any{"reason": "a\u202Eb", "message": "c\nd", "type": "Ready"}, "text"},
	}
	Messages(status)
	assert.Equal(t, map[string]any{
		"certificate": "a\nb", "message": "a b", "number": int64(1),
		"conditions": []any{map[string]any{"reason": "a b", "message": "c d", "type": "Ready"}, "text"},
	}, status)
}

func TestNames(t *testing.T) {
	assert.Empty(t, Names(nil, 2))
	assert.Equal(t, "a, b", Names([]string{"a", "b"}, 2))
	assert.Equal(t, "a, b and 2 more", Names([]string{"a", "b", "c", "d"}, 2))
}
