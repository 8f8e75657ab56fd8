package output

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
)

// The formats of a table.
const (
	table = "table"
	wide  = "wide"
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
		return wide
	case t.Format == Text:
		return table
	default:
		return string(t.Format)
	}
}

// Type implements pflag.Value.
func (t *Tables) Type() string { return "format" }

// Values are all formats.
func (t *Tables) Values() []string { return []string{table, wide, string(JSON), string(YAML)} }

// Set implements pflag.Value.
func (t *Tables) Set(value string) error {
	switch value {
	case table, wide:
		*t = Tables{Wide: value == wide}
	case string(JSON), string(YAML):
		*t = Tables{Format: Format(value)}
	default:
		return fmt.Errorf("%q is none of %s", value, strings.Join(t.Values(), ", "))
	}
	return nil
}

// Table prints rows under a header with aligned columns; an empty cell is a dash. Cells are
// made safe for a terminal, and folded to its width; in a pipe each row stays one line.
func Table(w io.Writer, header []string, rows [][]string) error {
	cells := make([][]Cell, 0, len(rows)+1)
	for _, row := range append([][]string{header}, rows...) {
		line := make([]Cell, len(row))
		for i, text := range row {
			line[i] = Plain(cmp.Or(text, "-"))
		}
		cells = append(cells, line)
	}
	return Cells(w, WidthOf(w), cells)
}

// WidthOf returns the number of columns of a terminal; 0 for another writer, or if it is unknown.
func WidthOf(w io.Writer) int {
	switch to := w.(type) {
	case interface{ Columns() int }:
		return to.Columns()
	case *os.File:
		return console.Width(to)
	default:
		return 0
	}
}

const (
	// gap is the number of spaces between two columns.
	gap = 2
	// maxPiece bounds what is not broken in a cell.
	maxPiece = 24
	// separators of names, behind which a name is broken.
	separators = "-./,:="
)

// Cell is a cell of a table, and its color.
type Cell struct {
	text  string
	paint func(string) Painted
}

// Plain returns a cell without color. Control characters are removed.
func Plain(text string) Cell { return Cell{text: plaintext.Line(text)} }

// Colorful returns a cell that a method of [Style] colors.
func Colorful(text string, paint func(string) Painted) Cell { return Cell{plaintext.Line(text), paint} }

// Cells writes rows with aligned columns and colors. With a width, the cells are folded between
// words and behind the separators of names. A table with too many columns for that is not folded.
func Cells(w io.Writer, width int, rows [][]Cell) error {
	widths := columnWidths(width, rows)
	for _, row := range rows {
		if err := writeRow(w, widths, row); err != nil {
			return fmt.Errorf("writing a table: %w", err)
		}
	}
	return nil
}

// columnWidths returns the widths of the columns. The last column, which mostly has sentences,
// shrinks first, then the widest one, step by step.
func columnWidths(width int, rows [][]Cell) []int {
	var widths, least []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
				least = append(least, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
			least[i] = max(least[i], longestPiece(c.text))
		}
	}
	if width == 0 || len(widths) == 0 {
		return widths
	}
	total := gap * (len(widths) - 1)
	for _, column := range widths {
		total += column
	}
	last := len(widths) - 1
	shrunk := slices.Clone(widths)
	if excess := total - width; excess > 0 {
		shrunk[last] = max(min(widths[last], max(minWidth, least[last])), widths[last]-excess)
		total -= widths[last] - shrunk[last]
	}
	for ; total > width; total-- {
		widest := -1
		for i, column := range shrunk {
			if column > least[i] && (widest < 0 || column > shrunk[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return widths
		}
		shrunk[widest]--
	}
	return shrunk
}

// writeRow writes a row in as many lines as its longest cell needs.
func writeRow(w io.Writer, widths []int, row []Cell) error {
	folded, height := make([][]string, len(row)), 1
	for i, c := range row {
		folded[i] = fold(c.text, widths[i])
		height = max(height, len(folded[i]))
	}
	for n := range height {
		var line strings.Builder
		for i, c := range row {
			text := ""
			if n < len(folded[i]) {
				text = folded[i][n]
			}
			room := widths[i] - utf8.RuneCountInString(text) + gap
			if c.paint != nil && text != "" {
				text = string(c.paint(text))
			}
			line.WriteString(text)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", room))
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err //nolint:wrapcheck // The caller wraps it.
		}
	}
	return nil
}

// longestPiece returns the length of the longest part of a text that should not be broken.
func longestPiece(text string) int {
	longest, length := 0, 0
	for _, r := range text {
		if r == ' ' {
			length = 0
			continue
		}
		length++
		longest = max(longest, length)
		if strings.ContainsRune(separators, r) {
			length = 0
		}
	}
	return min(longest, maxPiece)
}

// fold breaks the text of a cell into lines of at most width runes: between words, and words that
// are longer behind a separator, or anywhere if there is none.
func fold(text string, width int) []string {
	if utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var words []string
	for word := range strings.FieldsSeq(text) {
		runes := []rune(word)
		for len(runes) > width {
			end := width
			if at := strings.LastIndexAny(string(runes[:width]), separators); at >= 0 {
				end = utf8.RuneCountInString(string(runes[:width])[:at+1])
			}
			words = append(words, string(runes[:end]))
			runes = runes[end:]
		}
		words = append(words, string(runes))
	}
	return joinWords("", "", strings.Join(words, " "), width)
}

const (
	// minWidth is the least width that lines are folded to.
	minWidth = 20
	// leastIndent is the indentation of a line whose first word does not fit behind a deeper one.
	leastIndent = 2
)

var (
	// escape colors text, and has no width.
	escape = regexp.MustCompile("\033\\[[0-9;]*m")
	// lineIndent is where a line begins: spaces, and the sign of a difference.
	lineIndent = regexp.MustCompile("^(?:\033\\[[0-9;]*m|[ +-])*")
	// spacedWord is a word and the spaces in front of it.
	spacedWord = regexp.MustCompile(` *[^ ]+`)
)

func columnsOf(text string) int { return utf8.RuneCountInString(escape.ReplaceAllString(text, "")) }

// Fold breaks a line, which may have colors, into lines of at most width runes between words.
// The lines that follow are indented by hang more than the first. Words that are longer are not
// broken. A width below minWidth breaks nothing.
func Fold(line string, hang, width int) []string {
	if width < minWidth || columnsOf(line) <= width {
		return []string{line}
	}
	start := lineIndent.FindString(line)
	indent := strings.Repeat(" ", min(columnsOf(start)+hang, width/2))
	return joinWords(start, indent, line[len(start):], width)
}

// joinWords puts the words of a text into lines of at most width runes. The first line begins with
// start, and those that follow with indent, or with leastIndent if only then a word fits.
func joinWords(start, indent, text string, width int) []string {
	var lines []string
	current := start
	for i, word := range spacedWord.FindAllString(text, -1) {
		if i > 0 && columnsOf(current)+columnsOf(word) > width {
			lines = append(lines, strings.TrimRight(current, " "))
			current, word = indent, strings.TrimLeft(word, " ")
			if room := width - columnsOf(word); room >= leastIndent && room < len(indent) {
				current = strings.Repeat(" ", leastIndent) // A digest fits then.
			}
		}
		current += word
	}
	return append(lines, current)
}
