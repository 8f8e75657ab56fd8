package policy

import (
	"fmt"
	"io"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/document"
)

// contextLines are shown around each change of a diff.
const contextLines = 2

// compare puts the object afterwards, and how it differs, into the report.
func (r *Report) compare(before, after map[string]any) error {
	plain, err := document.Open(after)
	if err != nil {
		return fmt.Errorf("reading the object afterwards: %w", err)
	}
	r.Object, _ = plain.(map[string]any)
	old, err := yaml.Marshal(before)
	if err != nil {
		return fmt.Errorf("writing the object as YAML: %w", err)
	}
	now, err := yaml.Marshal(r.Object)
	if err != nil {
		return fmt.Errorf("writing the object as YAML: %w", err)
	}
	r.Diff, err = difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(string(old)), B: difflib.SplitLines(string(now)), Context: contextLines,
	})
	if err != nil {
		return fmt.Errorf("comparing the object: %w", err)
	}
	return nil
}

func (r *Report) text(w io.Writer, style output.Style) error {
	p := &printer{w: w, style: style}
	if r.Module != "" {
		p.field("Module", r.Module+" "+chain.ShortDigest(r.Digest))
	}
	p.field("Point", strings.TrimSuffix(r.Point+"/"+r.Moment, "/"))
	if len(r.Assumed) > 0 {
		p.field("Assumed", strings.Join(r.Assumed, ", ")+" (to set them, pass the facts of the point)")
	}
	if r.Usage != nil {
		p.field("Used", r.Usage.String())
	}
	p.line("")
	p.report(r)
	return p.err
}

func (p *printer) report(r *Report) {
	if len(r.Operations) > 0 {
		p.section("Operations")
		for i := range r.Operations {
			op := &r.Operations[i]
			what := string(op.Value)
			if len(op.Keys) > 0 {
				what = strings.Join(op.Keys, ", ")
			}
			p.line("  %-7s %s %s", op.Op, op.Path, what)
		}
	}
	if r.Diff != "" {
		p.section("Difference")
		p.diff(r.Diff)
	}
	if len(r.Decisions) > 0 {
		p.section("Decisions")
		for i := range r.Decisions {
			p.decision(r, i)
		}
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"Warnings", r.Warnings}, {"Log", r.Log}} {
		if len(list.lines) > 0 {
			p.section(list.title)
			p.indented(strings.Join(list.lines, "\n"))
		}
	}
	if r.Stderr != "" {
		p.section("What the module wrote")
		p.indented(r.Stderr)
	}
	p.outcome(r)
}

func (p *printer) decision(r *Report, i int) {
	entry := &r.Decisions[i]
	for _, change := range entry.Operations {
		p.line("  %s", change)
	}
	for _, key := range entry.Kept {
		p.line("  kept %s, which is reserved", key)
	}
	if len(entry.Operations)+len(entry.Kept) == 0 {
		p.line("  %s changed nothing", r.Module)
	}
}

func (p *printer) outcome(r *Report) {
	switch r.Outcome {
	case OutcomeAnswered:
		what := "the object stays as it is"
		if r.Diff != "" {
			what = "the object changes"
		}
		p.line("%s %s", p.style.Good("Answered:"), what)
	case OutcomeDenied:
		p.line("%s %s: %s", p.style.Bad("Denied:"), r.Denial.Reason, r.Denial.Message)
	case OutcomeSkipped:
		p.line("%s %s: %s", p.style.Good("Skipped:"), r.Skip.Reason, r.Skip.Message)
	default:
		title := "Failed"
		if r.Class != "" {
			title += " (" + r.Class + ")"
		}
		p.line("%s %s", p.style.Bad(title+":"), r.Error)
	}
}
