package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"

	"github.com/longshore-dev/longshore/conformance/cluster"
	"github.com/longshore-dev/longshore/conformance/suite"
)

//go:embed *.html.tmpl
var pages embed.FS

var parsed = template.Must(template.New("reports").Funcs(template.FuncMap{
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
}).ParseFS(pages, "*.html.tmpl"))

// HTML writes the report of a module as a page that needs neither scripts nor other files.
func HTML(w io.Writer, r *suite.Report) error { return execute(w, "report.html.tmpl", r) }

// ClusterHTML writes the report of an installation as such a page.
func ClusterHTML(w io.Writer, r *cluster.Report) error { return execute(w, "cluster.html.tmpl", r) }

func execute(w io.Writer, page string, report any) error {
	if err := parsed.ExecuteTemplate(w, page, report); err != nil {
		return fmt.Errorf("writing the HTML report: %w", err)
	}
	return nil
}
