package explain

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// cell is a cell of a table, and its color.
type cell struct {
	text  string
	paint func(string) output.Painted
}

func plain(text string) cell { return cell{text: engine.Plain(text)} }

// text writes a table for each object.
func (e *Explanation) text(w io.Writer, style output.Style) error {
	for i := range e.Objects {
		o := &e.Objects[i]
		title := fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
		if o.Remote {
			title += " (in the provider)"
		}
		separator := ""
		if i > 0 {
			separator = "\n"
		}
		if _, err := fmt.Fprint(w, separator, style.Title(title), "\n"); err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
		if err := o.table(w, style); err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
	}
	return nil
}

func (o *Object) table(w io.Writer, style output.Style) error {
	if o.Absent {
		_, err := fmt.Fprintln(w, "The object does not exist: it was not created yet, or it was deleted.")
		return err //nolint:wrapcheck // the caller wraps it
	}
	if len(o.Decisions) == 0 {
		_, err := fmt.Fprintln(w, "No policy wrote or dropped anything.")
		return err //nolint:wrapcheck // the caller wraps it
	}
	rows := [][]cell{}
	var head []cell
	for _, name := range []string{"POINT", "DECIDES", "POLICY", "MODULE", "DIGEST", "WHAT"} {
		head = append(head, cell{name, style.Title})
	}
	rows = append(rows, head)
	for i := range o.Decisions {
		rows = append(rows, rowsOf(&o.Decisions[i], style)...)
	}
	return write(w, rows)
}

// rowsOf returns a row for each change of a policy, or one row for a policy without any.
func rowsOf(entry *view.Entry, style output.Style) [][]cell {
	part := string(entry.Part)
	switch {
	case entry.Omitted > 0:
		return [][]cell{{plain("…"), plain(part), plain(""), plain(""), plain(""), plain(fmt.Sprintf("%d more policies, which do not fit into the annotation", entry.Omitted))}}
	case part == "":
		part = "all"
	}
	var did []cell
	for _, op := range entry.Operations {
		c := plain(op)
		if strings.HasPrefix(op, "remove ") {
			c.paint = style.Bad
		}
		did = append(did, c)
	}
	for _, key := range entry.Kept {
		did = append(did, plain("tried to change "+key+", which is reserved"))
	}
	if entry.Ignored {
		did = append(did, cell{"failed, and was skipped", style.Bad})
	}
	if entry.FellBack {
		did = append(did, cell{"failed, and its previous version decided", style.Bad})
	}
	if len(did) == 0 {
		did = append(did, plain("nothing"))
	}
	rows := [][]cell{{plain(entry.Point), plain(part), plain(entry.Policy), plain(entry.Module), plain(entry.Digest), did[0]}}
	for _, c := range did[1:] {
		rows = append(rows, []cell{plain(""), plain(""), plain(""), plain(""), plain(""), c})
	}
	return rows
}

// write aligns the columns by their visible width.
func write(w io.Writer, rows [][]cell) error {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			text := c.text
			if c.paint != nil {
				text = string(c.paint(text))
			}
			line.WriteString(text)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+3))
			}
		}
		if _, err := fmt.Fprintln(w, line.String()); err != nil {
			return err //nolint:wrapcheck // the caller wraps it
		}
	}
	return nil
}
