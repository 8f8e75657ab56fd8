package policy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/report"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
)

const conformExample = `  # Is this module right?
  longshorectl policy conform module.wasm.gz

  # With the golden cases of its author, as a report for a pipeline
  longshorectl policy conform module.wasm.gz --vectors vectors -o yaml > report.yaml

  # With a signature, for clusters that require one
  longshorectl policy conform module.wasm.gz --vectors vectors --sign-key key.pem -o json > report.dsse.json

  # With a page for people, and the results for a pipeline
  longshorectl policy conform module.wasm.gz --vectors vectors --html report.html --junit report.xml`

func conformCommand(streams Streams) *cobra.Command {
	var format output.Format
	var folder, junit, html, signKey string
	var strict bool
	command := &cobra.Command{
		Use:   "conform MODULE [--vectors FOLDER]",
		Short: "Test a module against the conformance suite",
		Long: "Test a module against the conformance suite, in Longshore's host and in stock Extism. No cluster is needed.\n" +
			"MODULE is a .wasm, .wasm.gz or .wasm.zst file, or - for the standard input.\n" +
			"--vectors names a folder with golden cases, *.json, of the module's author; without it the module is asked the golden\n" +
			"questions of its extension points, and its answers are checked for everything but their meaning.\n" +
			"docs/reference/conformance.md lists the rules. A finding names the rule that the module breaks, and the smallest input that\n" +
			"shows it. -o yaml and -o json write the document PolicyConformanceReport.\n" +
			"--sign-key signs it: -o json writes a DSSE envelope then, which policy verify-report and clusters with policies.reportKeys check.\n" +
			"Exit codes: 0 the module conforms, 1 an input cannot be read, 2 wrong command line, 3 the module is refused or does not conform.",
		Example: conformExample,
		Args:    oneModule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if signKey != "" && format != output.JSON {
				return output.Usagef("--sign-key goes with -o json: the signed report is JSON")
			}
			raw, err := streams.read(args[0])
			if err != nil {
				return err
			}
			var own []vectors.Vector
			if folder != "" {
				if own, err = readVectors(folder); err != nil {
					return err
				}
			}
			result, err := suite.Conform(cmd.Context(), raw, suite.Options{Source: args[0], Vectors: own, Strict: strict, Compiler: streams.Compiler})
			if err != nil {
				return fmt.Errorf("testing %s: %w", args[0], err)
			}
			if err := report.WriteFile(junit, result, report.JUnit); err != nil {
				return err
			}
			if err := report.WriteFile(html, result, report.HTML); err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, streams.Getenv)
			if signKey != "" {
				err = streams.sign(cmd.Context(), result, signKey)
			} else {
				err = output.Print(streams.Out, format, result, func(w io.Writer) error { return conformanceText(w, style, result) })
			}
			if err != nil {
				return err
			}
			if !result.Conforms {
				return &output.Exit{Code: output.CodeModule}
			}
			return nil
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	flags.StringVar(&folder, "vectors", "", "folder with golden cases of the module, *.json")
	flags.StringVar(&junit, "junit", "", "file for the results as JUnit XML")
	flags.StringVar(&html, "html", "", "file for the report as an HTML page")
	flags.StringVar(&signKey, "sign-key", "", "file with a private key, Ed25519 or ECDSA in PEM: sign the report")
	flags.BoolVar(&strict, "strict", false, "advice counts: inputs that a host never sends must be refused, too")
	return command
}

func readVectors(folder string) ([]vectors.Vector, error) {
	own, err := vectors.Read(os.DirFS(folder))
	if err != nil {
		return nil, fmt.Errorf("reading the vectors in %s: %w", folder, err)
	}
	if len(own) == 0 {
		return nil, fmt.Errorf("reading the vectors in %s: %w", folder, errors.New("the folder has no .json files"))
	}
	return own, nil
}

const (
	// shownError bounds what the text shows of a finding; the other formats have all of it.
	shownError = 600
	// shownFindings bounds the findings of one rule that the text shows.
	shownFindings = 3
)

func conformanceText(w io.Writer, style output.Style, r *suite.Report) error {
	p := &printer{w: w, style: style}
	p.field("Module", strings.TrimSpace(r.Module.Name+" "+r.Module.Version))
	p.field("Digest", r.Module.Digest)
	p.field("Contract", r.Contract+", suite "+r.Suite)
	p.line("")
	var rows [][]string
	for i := range r.Checks {
		check := &r.Checks[i]
		row := []string{check.Rule, "", "", "", check.Skipped}
		if check.Skipped == "" {
			row[1], row[2], row[3] = strconv.Itoa(check.Passed), strconv.Itoa(check.Failed), strconv.Itoa(check.Advice)
		}
		rows = append(rows, row)
	}
	if p.err == nil {
		p.err = output.Table(w, []string{"RULE", "PASSED", "FAILED", "ADVICE", "SKIPPED"}, rows)
	}
	for _, feature := range r.Features {
		if feature.Skipped != "" {
			p.line("%s: skipped, %s", feature.Name, feature.Skipped)
		}
	}
	p.figures(r.Figures)
	p.findings(r)
	p.line("")
	if r.Vectors == 0 && r.Conforms {
		p.line("Without --vectors nothing tests what the answers mean.")
	}
	if r.Conforms {
		p.line("%s", style.Good("The module conforms."))
	} else {
		p.line("%s", style.Bad("The module does not conform."))
	}
	return p.err
}

func (p *printer) figures(figures []suite.Figures) {
	for i := range figures {
		f := &figures[i]
		p.line("%s: %d ordinary requests took %d ticks of fuel at the median and %d at the 99th percentile (limit %d), and up to %s of memory",
			f.Point, f.Requests, f.Fuel.P50, f.Fuel.P99, f.Fuel.Limit, size(int(f.Memory.Max)))
	}
}

func (p *printer) findings(r *suite.Report) {
	shown := map[string]int{}
	for i := range r.Findings {
		f := &r.Findings[i]
		if shown[f.Rule]++; shown[f.Rule] > shownFindings {
			continue
		}
		p.line("")
		head := p.style.Bad("failed")
		if f.Advice {
			head = output.Painted("advice")
		}
		p.line("%s  %s: %s, %s", head, f.Rule, f.Feature, f.Name)
		p.indented("contract: " + f.Sentence)
		p.indented("found:    " + cut(f.Error))
		if input := report.InputOf(f); input != "" {
			p.indented("input:    " + cut(input))
		}
	}
	for i := range r.Checks {
		if more := shown[r.Checks[i].Rule] - shownFindings; more > 0 {
			p.line("%d more findings of %s: -o yaml has them", more, r.Checks[i].Rule)
		}
	}
}

func cut(text string) string {
	if len(text) <= shownError {
		return text
	}
	return strings.ToValidUTF8(text[:shownError], "") + "… (-o yaml has all of it)"
}
