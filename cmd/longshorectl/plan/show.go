package plan

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/host/planner"
)

// printer writes text and keeps the first error.
type printer struct {
	w     io.Writer
	style output.Style
	width int
	err   error
}

func (p *printer) table(head []string, rows [][]output.Cell) {
	titles := make([]output.Cell, len(head))
	for i, name := range head {
		titles[i] = output.Colorful(name, p.style.Title)
	}
	if p.err == nil {
		p.err = output.Cells(p.w, p.width, append([][]output.Cell{titles}, rows...))
	}
}

// paragraph writes text, folded, the first line after a lead.
func (p *printer) paragraph(lead output.Painted, text string) {
	for i, line := range output.Fold(output.Sprintf("%s", text), 0, p.width-2) {
		switch {
		case p.err != nil:
			return
		case i == 0 && lead != "":
			_, p.err = fmt.Fprintln(p.w, output.Sprintf("%s", lead))
			fallthrough
		default:
			if p.err == nil {
				_, p.err = fmt.Fprintln(p.w, "  "+line)
			}
		}
	}
}

func (p *printer) line(text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, text)
	}
}

// finish returns the first error.
func (p *printer) finish() error {
	if p.err != nil {
		return fmt.Errorf("writing the plan: %w", p.err)
	}
	return nil
}

// PrintTable writes a row for each template, the reasons of those that do not run, and the warnings.
func PrintTable(w io.Writer, result *Result, style output.Style, width int) error {
	p := &printer{w: w, style: style, width: width}
	rows := make([][]output.Cell, 0, len(result.Plans))
	one := hasOneNamespace(result.Plans)
	for _, plan := range result.Plans {
		name := plan.String()
		if !one {
			name = plan.Namespace + "/" + name
		}
		rows = append(rows, []output.Cell{
			output.Plain(name), output.Colorful(string(plan.Result), p.paint(plan.Result)),
			output.Plain(abbreviateNames(plan.Fitting())), output.Plain(strconv.Itoa(len(plan.Changes))), output.Plain(countNeeds(plan)),
		})
	}
	p.table([]string{"TEMPLATE", "RESULT", "NODES", "CHANGES", "NEEDS"}, rows)
	p.once(result, func(plan *planner.Plan) (string, []string) {
		if plan.Reason == nil {
			return "", nil
		}
		return string(plan.Reason.Stage), []string{plan.Reason.Message}
	})
	p.once(result, func(plan *planner.Plan) (string, []string) { return "warning", plan.Warnings })
	p.notes(result)
	return p.finish()
}

// paint returns the color of a result.
func (p *printer) paint(result planner.Result) func(string) output.Painted {
	switch result {
	case planner.Refused, planner.Pending:
		return p.style.Bad
	case planner.Local:
		return p.style.Title
	default:
		return p.style.Good
	}
}

// once writes each message once, with the templates that it is about.
func (p *printer) once(result *Result, of func(*planner.Plan) (title string, messages []string)) {
	first := map[string]string{}
	more := map[string]int{}
	var order []string
	for _, plan := range result.Plans {
		title, messages := of(plan)
		for _, message := range messages {
			if _, known := first[message]; known {
				more[message]++
				continue
			}
			first[message] = fmt.Sprintf("%s (%s)", plan, title)
			order = append(order, message)
		}
	}
	for _, message := range order {
		who := first[message]
		if n := more[message]; n > 0 {
			who += fmt.Sprintf(" and %d more", n)
		}
		p.line("")
		p.paragraph(p.style.Title(who), message)
	}
}

// notes writes what is about all templates.
func (p *printer) notes(result *Result) {
	for _, problem := range result.Problems {
		p.line("")
		p.paragraph(p.style.Bad("Policy"), problem)
	}
	if len(result.Warnings) > 0 {
		p.line("")
		p.paragraph(p.style.Bad("Fields that no pod gets"), strings.Join(result.Warnings, "; "))
	}
	if len(result.Plans) > 0 && len(result.Plans[0].Assumed) > 0 {
		p.line("")
		p.paragraph(p.style.Title("Assumed"), strings.Join(result.Plans[0].Assumed, "; "))
	}
}

// hasOneNamespace reports whether all templates are in the same namespace.
func hasOneNamespace(plans []*planner.Plan) bool {
	return !slices.ContainsFunc(plans, func(p *planner.Plan) bool { return p.Namespace != plans[0].Namespace })
}

// abbreviateNames writes the first name of a list and the number of the others.
func abbreviateNames(names []string) string {
	switch len(names) {
	case 0:
		return "-"
	case 1:
		return names[0]
	default:
		return fmt.Sprintf("%s +%d", names[0], len(names)-1)
	}
}

// countNeeds writes the number of objects that a pod needs.
func countNeeds(plan *planner.Plan) string {
	missing, stay := 0, 0
	for _, f := range plan.Follows {
		switch {
		case f.Optional || f.State == planner.Reflected:
		case f.State == planner.Missing:
			missing++
		default:
			stay++
		}
	}
	text := strconv.Itoa(len(plan.Follows))
	if missing > 0 {
		text += fmt.Sprintf(", %d missing", missing)
	}
	if stay > 0 {
		text += fmt.Sprintf(", %d stay", stay)
	}
	return text
}

// PrintWide writes a block for each template.
func PrintWide(w io.Writer, result *Result, style output.Style, width int) error {
	p := &printer{w: w, style: style, width: width}
	for i, plan := range result.Plans {
		if i > 0 {
			p.line("")
		}
		p.plan(plan)
	}
	p.notes(result)
	return p.finish()
}

func (p *printer) plan(plan *planner.Plan) {
	p.line(string(p.style.Title(fmt.Sprintf("%s in namespace %s", plan, plan.Namespace))) + ": " + string(p.paint(plan.Result)(string(plan.Result))))
	if plan.Reason != nil {
		p.paragraph("", fmt.Sprintf("%s, %s: %s", plan.Reason.Stage, plan.Reason.Reason, plan.Reason.Message))
	}
	if len(plan.Nodes) > 0 {
		var rows [][]output.Cell
		for _, node := range plan.Nodes {
			fits := output.Colorful("no", p.style.Bad)
			if node.Fits {
				fits = output.Colorful("yes", p.style.Good)
			}
			rows = append(rows, []output.Cell{output.Plain(node.Name), output.Plain(node.Provider), fits, output.Plain(node.Reason)})
		}
		p.line("")
		p.table([]string{"NODE", "PROVIDER", "FITS", "REASON"}, rows)
	}
	p.changes("ADMITTED BY", planner.Admission, plan.Changes)
	p.changes("SENT BY", planner.Forging, plan.Changes)
	if len(plan.Follows) > 0 {
		var rows [][]output.Cell
		for _, f := range plan.Follows {
			paint := p.style.Good
			if f.State != planner.Reflected && !f.Optional {
				paint = p.style.Bad
			}
			why := f.Why
			if f.Optional {
				why = strings.TrimSpace("optional " + why)
			}
			rows = append(rows, []output.Cell{output.Plain(strings.ToLower(f.Kind) + "/" + f.Name), output.Colorful(string(f.State), paint), output.Plain(strings.TrimSpace(why))})
		}
		p.line("")
		p.table([]string{"NEEDS", "STATE", "WHY"}, rows)
	}
	for _, warning := range plan.Warnings {
		p.line("")
		p.paragraph(p.style.Title("Warning"), warning)
	}
}

// changes lists the changes of a stage, and what made them: a policy, or a rule with its reason.
func (p *printer) changes(head string, stage planner.Stage, changes []planner.Change) {
	var rows [][]output.Cell
	for _, c := range changes {
		if c.Stage != stage {
			continue
		}
		by, what := "rule", c.What
		if c.Policy != "" {
			by = c.Policy
		}
		if c.Why != "" {
			what += ": " + c.Why
		}
		rows = append(rows, []output.Cell{output.Plain(by), output.Plain(what)})
	}
	if len(rows) > 0 {
		p.line("")
		p.table([]string{head, "CHANGE"}, rows)
	}
}
