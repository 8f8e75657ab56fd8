package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/longshore-dev/longshore/conformance/suite"
)

//go:embed report.html.tmpl
var page string

var parsed = template.Must(template.New("report").Funcs(template.FuncMap{
	"input": func(f suite.Finding) string { return InputOf(&f) },
	"percent": func(value, limit uint64) string {
		return fmt.Sprintf("%.1f %%", 100*float64(value)/float64(max(1, limit)))
	},
	"state": func(c suite.Counts) string {
		switch {
		case c.Failed > 0:
			return "failed"
		case c.Advice > 0:
			return "advice"
		case c.Passed > 0:
			return "passed"
		default:
			return "skipped"
		}
	},
}).Parse(page))

// HTML writes a page that needs neither scripts nor other files.
func HTML(w io.Writer, r *suite.Report) error {
	if err := parsed.Execute(w, r); err != nil {
		return fmt.Errorf("writing the HTML report: %w", err)
	}
	return nil
}
