package conform

import (
	"fmt"
	"io"
	"strings"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	suite "github.com/longshore-dev/longshore/conformance/cluster"
)

// text writes the report for people: a table of the checks, then the findings.
func text(w io.Writer, style output.Style, r *suite.Report) error {
	rows := make([][]string, 0, len(r.Checks))
	for i := range r.Checks {
		check := &r.Checks[i]
		state, detail := "passed", check.Sentence
		switch {
		case check.Skipped != "":
			state, detail = "skipped", check.Skipped
		case check.Failed > 0:
			state = "failed"
		}
		rows = append(rows, []string{check.Rule, state, detail})
	}
	if err := output.Table(w, []string{"CHECK", "RESULT", "WHAT IS CHECKED, OR WHY NOT"}, rows); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	var lines strings.Builder
	line := func(format string, arguments ...any) { lines.WriteString(output.Sprintf(format, arguments...) + "\n") }
	for i := range r.Findings {
		f := &r.Findings[i]
		line("\n%s  %s", style.Bad("failed"), f.Rule)
		line("  expected: %s", f.Sentence)
		for part := range strings.Lines("found:    " + f.Error) {
			line("  %s", strings.TrimRight(part, "\n"))
		}
	}
	for _, feature := range r.Features {
		if feature.Skipped != "" {
			line("\nProfile %s was not tested: %s.", feature.Name, feature.Skipped)
		}
	}
	line("")
	if r.Conforms {
		line("%s", style.Good(fmt.Sprintf("The installation conforms: consumer %s, provider %s, suite %s.", r.Consumer, r.Provider, r.Suite)))
	} else {
		line("%s", style.Bad("The installation does not conform."))
	}
	if _, err := io.WriteString(w, lines.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
