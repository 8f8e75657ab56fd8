package explain

import (
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/host/planner"
	"github.com/longshore-dev/longshore/host/policy/view"
)

// text writes whether a pod runs, and why not, and a table for each object.
func (e *Explanation) text(w io.Writer, style output.Style) error {
	if answer := e.answer(style, output.WidthOf(w)); answer != "" {
		if _, err := io.WriteString(w, answer+"\n\n"); err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
	}
	for _, warning := range e.Warnings {
		lines := output.Fold(output.Sprintf("Warning: %s", warning), 0, output.WidthOf(w))
		if _, err := io.WriteString(w, strings.Join(lines, "\n")+"\n\n"); err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
	}
	for i := range e.Objects {
		o := &e.Objects[i]
		title := fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
		if o.Namespace == "" {
			title = fmt.Sprintf("%s %s", o.Kind, o.Name)
		}
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

// answer says whether a pod runs; nothing for other kinds.
func (e *Explanation) answer(style output.Style, width int) string {
	d := e.Diagnosis
	switch {
	case d != nil:
		title := "Does not run"
		text := output.Sprintf("%s at %s, %s: %s", title, string(d.Stage), d.Reason.Reason, d.Message)
		if d.Stage == planner.Scheduling && e.Node != "" {
			title = "Runs where it should not"
			text = output.Sprintf("%s, %s: %s", title, d.Reason.Reason, d.Message)
		}
		text = strings.Join(output.Fold(text, 0, width), "\n")
		return string(style.Bad(title)) + strings.TrimPrefix(text, title) + output.Sprintf("\nWho can correct it: %s", d.Who)
	case e.Phase == corev1.PodSucceeded:
		return string(style.Good("Has ended")) + output.Sprintf(" with success on node %s.", e.Node)
	case e.Phase != "":
		return string(style.Good("Runs")) + output.Sprintf(" on node %s, and is ready.", e.Node)
	}
	return ""
}

func (o *Object) table(w io.Writer, style output.Style) error {
	if o.Problem != "" {
		_, err := fmt.Fprintln(w, strings.Join(output.Fold(output.Sprintf("The object cannot be shown: %s", o.Problem), 0, output.WidthOf(w)), "\n"))
		return err //nolint:wrapcheck // the caller wraps it
	}
	if o.Absent {
		_, err := fmt.Fprintln(w, "The object does not exist: it was not created yet, or it was deleted.")
		return err //nolint:wrapcheck // the caller wraps it
	}
	if len(o.Decisions) == 0 {
		_, err := fmt.Fprintln(w, "No policy wrote or dropped anything.")
		return err //nolint:wrapcheck // the caller wraps it
	}
	rows := [][]output.Cell{}
	var head []output.Cell
	for _, name := range []string{"POINT", "DECIDES", "POLICY", "MODULE", "DIGEST", "WHAT"} {
		head = append(head, output.Colorful(name, style.Title))
	}
	rows = append(rows, head)
	for i := range o.Decisions {
		rows = append(rows, rowsOf(&o.Decisions[i], style)...)
	}
	return output.Cells(w, output.WidthOf(w), rows)
}

// rowsOf returns a row for each change of a policy, or one row for a policy without any.
func rowsOf(entry *view.Entry, style output.Style) [][]output.Cell {
	part := string(entry.Part)
	switch {
	case entry.Omitted > 0:
		return [][]output.Cell{{output.Plain("…"), output.Plain(part), output.Plain(""), output.Plain(""), output.Plain(""), output.Plain(fmt.Sprintf("%d more policies, which do not fit into the annotation", entry.Omitted))}}
	case part == "":
		part = "all"
	}
	var did []output.Cell
	for _, op := range entry.Operations {
		if strings.HasPrefix(op, "remove ") {
			did = append(did, output.Colorful(op, style.Bad))
			continue
		}
		did = append(did, output.Plain(op))
	}
	for _, key := range entry.Kept {
		did = append(did, output.Plain("tried to change "+key+", which is reserved"))
	}
	if entry.Ignored {
		did = append(did, output.Colorful("failed, and was skipped", style.Bad))
	}
	if entry.FellBack {
		did = append(did, output.Colorful("failed, and its previous version decided", style.Bad))
	}
	if len(did) == 0 {
		did = append(did, output.Plain("nothing"))
	}
	rows := [][]output.Cell{{output.Plain(entry.Point), output.Plain(part), output.Plain(entry.Policy), output.Plain(entry.Module), output.Plain(entry.Digest), did[0]}}
	for _, c := range did[1:] {
		rows = append(rows, []output.Cell{output.Plain(""), output.Plain(""), output.Plain(""), output.Plain(""), output.Plain(""), c})
	}
	return rows
}
