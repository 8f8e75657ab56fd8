package output_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func TestFormatsOfTables(t *testing.T) {
	for name, tc := range map[string]struct {
		args    []string
		want    output.Tables
		wantErr string
	}{
		"without the flag, a table": {},
		"a table":                   {args: []string{"-o", "table"}},
		"all columns":               {args: []string{"-o", "wide"}, want: output.Tables{Wide: true}},
		"encoded":                   {args: []string{"-o", "yaml"}, want: output.Tables{Format: output.YAML}},
		"the last one":              {args: []string{"-o", "wide", "--output=json"}, want: output.Tables{Format: output.JSON}},
		"an unknown one":            {args: []string{"-o", "xml"}, wantErr: `"xml" is none of table, wide, json, yaml`},
	} {
		t.Run(name, func(t *testing.T) {
			var got output.Tables
			set := pflag.NewFlagSet("", pflag.ContinueOnError)
			got.AddTo(set)
			err := set.Parse(tc.args)
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestColumnsAreAlignedWithoutColorsAndControlCharacters(t *testing.T) {
	var out strings.Builder
	require.NoError(t, output.Table(&out, []string{"NAME", "PEER", "AGE"}, [][]string{{"a", "", "1d"}, {"long\x1b[2Jname", "b", ""}}))
	assert.Equal(t, "NAME          PEER  AGE\na             -     1d\nlong [2Jname  b     -\n", out.String())
}
