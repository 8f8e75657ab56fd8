package output_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

type named string

func TestTerminalsReceiveNoControlCharactersOfArguments(t *testing.T) {
	on, off := output.Colored(true), output.Colored(false)
	for name, tc := range map[string]struct{ got, want string }{
		"a string":                  {output.Sprintf("%s|", "a\x1b[2Jb\nAnswered: c"), "a [2Jb Answered: c|"},
		"a named string type":       {output.Sprintf("%-5s|", named("a\rb")), "a b  |"},
		"a number":                  {output.Sprintf("%03d", 7), "007"},
		"nothing":                   {output.Sprintf("%v", nil), "<nil>"},
		"a painted argument":        {output.Sprintf("%s", on.Bad("a\x1b[2J\u202eb")), "\x1b[31ma [2J b\x1b[0m"},
		"a title that is not shown": {string(off.Title("a\x07b")), "a b"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, tc.got) })
	}
}
