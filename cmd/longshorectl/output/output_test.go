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

func TestTextIsATable(t *testing.T) {
	for value, want := range map[string]output.Format{"table": output.Text, "wide": output.Text, "json": output.JSON, "yaml": output.YAML} {
		format := output.YAML
		require.NoError(t, format.Set(value))
		assert.Equal(t, want, format)
	}
	var format output.Format
	require.Error(t, format.Set("xml"))
	assert.Equal(t, "table", format.String())

	encoded, set := output.YAML, pflag.NewFlagSet("", pflag.ContinueOnError)
	encoded.AddEncodedTo(set, "yaml when absent")
	require.ErrorContains(t, set.Parse([]string{"-o", "table"}), `"table" is none of json, yaml`)
	require.NoError(t, set.Parse([]string{"-o", "json"}))
	assert.Equal(t, output.JSON, encoded)
}

func TestColumnsAreAlignedWithoutColorsAndControlCharacters(t *testing.T) {
	var out strings.Builder
	require.NoError(t, output.Table(&out, []string{"NAME", "PEER", "AGE"}, [][]string{{"a", "", "1d"}, {"long\x1b[2Jname", "b", ""}}))
	assert.Equal(t, "NAME          PEER  AGE\na             -     1d\nlong [2Jname  b     -\n", out.String())
}

func TestCellsAreFoldedToATerminal(t *testing.T) {
	rows := func(cells ...string) [][]output.Cell {
		var all [][]output.Cell
		for _, row := range append([]string{"NAME|WHY"}, cells...) {
			var line []output.Cell
			for cell := range strings.SplitSeq(row, "|") {
				line = append(line, output.Plain(cell))
			}
			all = append(all, line)
		}
		return all
	}
	for name, tc := range map[string]struct {
		width int
		rows  [][]output.Cell
		want  string
	}{
		"a table that fits":                   {30, rows("a|b c"), "NAME  WHY\na     b c\n"},
		"a sentence":                          {30, rows("a|the provider denied the resources"), "NAME  WHY\na     the provider denied the\n      resources\n"},
		"a name, behind a separator":          {30, rows("one-two-three-four|the provider denied the slice"), "NAME            WHY\none-two-three-  the provider\nfour            denied the\n                slice\n"},
		"letters of several bytes":            {30, rows("ä|ööööö öööööööö üüüüü ääääää"), "NAME  WHY\nä     ööööö öööööööö üüüüü\n      ääääää\n"},
		"a word that is longer than a column": {30, rows(strings.Repeat("x", 30) + "|y"), "NAME                       WHY\nxxxxxxxxxxxxxxxxxxxxxxxxx  y\nxxxxx\n"},
		"more columns than there is room":     {5, rows("abcdef|ghijkl"), "NAME    WHY\nabcdef  ghijkl\n"},
		"no terminal":                         {0, rows(strings.Repeat("x ", 50) + "|y"), "NAME" + strings.Repeat(" ", 98) + "WHY\n" + strings.Repeat("x ", 50) + "  y\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			require.NoError(t, output.Cells(&out, tc.width, tc.rows))
			assert.Equal(t, tc.want, out.String())
		})
	}
}

func TestLinesAreFoldedBetweenWords(t *testing.T) {
	red := output.Colored(true).Bad
	for name, tc := range map[string]struct {
		line        string
		hang, width int
		want        []string
	}{
		"a line that fits":            {"one two three", 0, 20, []string{"one two three"}},
		"a sentence":                  {"one two three four five six", 0, 20, []string{"one two three four", "five six"}},
		"behind a number":             {" 1. one two three four five", 3, 20, []string{" 1. one two three", "    four five"}},
		"an indented line":            {"  one two three four five", 2, 20, []string{"  one two three four", "    five"}},
		"the sign of a difference":    {"+ one two three four five", 0, 20, []string{"+ one two three four", "  five"}},
		"a long word is not broken":   {"one " + strings.Repeat("x", 24) + " two", 4, 20, []string{"one", "    " + strings.Repeat("x", 24), "    two"}},
		"less indentation for a word": {"one " + strings.Repeat("x", 18) + " two", 4, 20, []string{"one", "  " + strings.Repeat("x", 18), "    two"}},
		"colors have no width":        {string(red("one two three four")) + " five", 0, 20, []string{string(red("one two three four")), "five"}},
		"letters of several bytes":    {"äää ööööö üüüüü äääää", 0, 20, []string{"äää ööööö üüüüü", "äääää"}},
		"too narrow to fold":          {"one two three four five six", 0, 19, []string{"one two three four five six"}},
		"not a terminal":              {"one two three four five six", 0, 0, []string{"one two three four five six"}},
		"most of the width is spent":  {"one two three four five", 30, 20, []string{"one two three four", strings.Repeat(" ", 10) + "five"}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, output.Fold(tc.line, tc.hang, tc.width)) })
	}
}
