package output

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/longshore-dev/longshore/host/policy/engine"
)

// Tables is the value of --output of a command that prints a table.
type Tables struct {
	// Format is Text for a table.
	Format Format
	// Wide asks for all columns.
	Wide bool
}

// AddTo adds the flag.
func (t *Tables) AddTo(flags *pflag.FlagSet) {
	flags.VarP(t, "output", "o", "table, wide, json or yaml")
}

// String implements pflag.Value.
func (t *Tables) String() string {
	switch {
	case t.Wide:
		return "wide"
	case t.Format == Text:
		return "table"
	default:
		return string(t.Format)
	}
}

// Type implements pflag.Value.
func (t *Tables) Type() string { return "format" }

// Values are all formats.
func (t *Tables) Values() []string { return []string{"table", "wide", string(JSON), string(YAML)} }

// Set implements pflag.Value.
func (t *Tables) Set(value string) error {
	switch value {
	case "table", "wide":
		*t = Tables{Wide: value == "wide"}
	case string(JSON), string(YAML):
		*t = Tables{Format: Format(value)}
	default:
		return fmt.Errorf("%q is none of %s", value, strings.Join(t.Values(), ", "))
	}
	return nil
}

// Table prints rows under a header with aligned columns; an empty cell is a dash. Cells are
// made safe for a terminal.
func Table(w io.Writer, header []string, rows [][]string) error {
	cells := make([][]Cell, 0, len(rows)+1)
	for _, row := range append([][]string{header}, rows...) {
		line := make([]Cell, len(row))
		for i, text := range row {
			line[i] = Plain(cmp.Or(text, "-"))
		}
		cells = append(cells, line)
	}
	return Cells(w, 0, cells)
}

// gap is the number of spaces between two columns.
const gap = 2

// Cell is a cell of a table, and its color.
type Cell struct {
	text  string
	paint func(string) Painted
}

// Plain returns a cell without color. Control characters are removed.
func Plain(text string) Cell { return Cell{text: engine.Plain(text)} }

// Colorful returns a cell that a method of [Style] colors.
func Colorful(text string, paint func(string) Painted) Cell { return Cell{engine.Plain(text), paint} }

// Cells writes rows with aligned columns and colors. With a width, the last column is wrapped
// to it.
func Cells(w io.Writer, width int, rows [][]Cell) error {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	before := 0
	for _, column := range widths[:max(len(widths)-1, 0)] {
		before += column + gap
	}
	for _, row := range rows {
		lines := []string{row[len(row)-1].text}
		if len(row) == len(widths) {
			lines = Wrap(lines[0], width-before)
		}
		for n, last := range lines {
			var line strings.Builder
			for i, c := range row {
				switch {
				case i == len(row)-1:
					c.text = last
				case n > 0:
					c.text = ""
				}
				text := c.text
				if c.paint != nil && text != "" {
					text = string(c.paint(text))
				}
				line.WriteString(text)
				if i < len(row)-1 {
					line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+gap))
				}
			}
			if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
				return fmt.Errorf("writing a table: %w", err)
			}
		}
	}
	return nil
}

// minWidth is the least width that text is wrapped to.
const minWidth = 20

// Wrap breaks text into lines of at most width runes between words. Words that are longer are
// not broken. A width below minWidth breaks nothing.
func Wrap(text string, width int) []string {
	if width < minWidth || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
