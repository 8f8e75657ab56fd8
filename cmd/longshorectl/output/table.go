package output

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
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

// Set implements pflag.Value.
func (t *Tables) Set(value string) error {
	switch value {
	case "table", "wide":
		*t = Tables{Wide: value == "wide"}
	case string(JSON), string(YAML):
		*t = Tables{Format: Format(value)}
	default:
		return fmt.Errorf("%q is none of table, wide, json, yaml", value)
	}
	return nil
}

// Table prints rows under a header with aligned columns, without trailing spaces. Cells are
// made safe for a terminal.
func Table(w io.Writer, header []string, rows [][]string) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cell == "" {
				cell = "-"
			}
			cells[i] = Sprintf("%s", cell)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	err := table.Flush()
	for line := range strings.Lines(text.String()) {
		if err == nil {
			_, err = fmt.Fprintln(w, strings.TrimRight(line, " \n"))
		}
	}
	if err != nil {
		return fmt.Errorf("printing a table: %w", err)
	}
	return nil
}
