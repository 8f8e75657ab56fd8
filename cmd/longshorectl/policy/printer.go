package policy

import (
	"fmt"
	"io"
	"strings"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// printer writes text for people, folded to the width of a terminal, and keeps the first error.
type printer struct {
	w     io.Writer
	style output.Style
	err   error
}

func (p *printer) line(format string, arguments ...any) {
	p.fold(2, output.Sprintf(format, arguments...))
}

func (p *printer) fold(hang int, line string) {
	for _, part := range output.Fold(line, hang, output.WidthOf(p.w)) {
		if p.err != nil {
			return
		}
		if _, err := fmt.Fprintln(p.w, part); err != nil {
			p.err = fmt.Errorf("writing the answer: %w", err)
		}
	}
}

// nameWidth is the number of columns for the name of a field.
const nameWidth = 11

// field writes a name and a value, unless the value is empty.
func (p *printer) field(name, value string) {
	if value != "" {
		p.fold(nameWidth+1, output.Sprintf("%s %s", p.style.Title(fmt.Sprintf("%-*s", nameWidth, name+":")), value))
	}
}

func (p *printer) section(title string) { p.line("%s", p.style.Title(title+":")) }

func (p *printer) indented(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		p.line("  %s", strings.TrimRight(line, "\n"))
	}
}

// diff writes a unified diff with what goes in one color and what comes in another.
func (p *printer) diff(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "+"):
			p.line("  %s", p.style.Good(line))
		case strings.HasPrefix(line, "-"):
			p.line("  %s", p.style.Bad(line))
		default:
			p.line("  %s", line)
		}
	}
}

// size writes a number of bytes for people.
func size(bytes int) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	case bytes >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	default:
		return fmt.Sprintf("%d bytes", bytes)
	}
}
