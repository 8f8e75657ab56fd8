package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/kit/version"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// ConformanceReportVersion is the API version of a [ConformanceReport].
const ConformanceReportVersion = "conformance.longshore.dev/v1alpha1"

// ConformanceReport is the result of the conformance suite for one module.
type ConformanceReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Module is what was tested, by the digest of its unpacked bytes.
	Module ConformanceModule `json:"module"`
	// Contract is the version of the contract, and Longshore the version of the host and the
	// suite.
	Contract  string `json:"contract"`
	Longshore string `json:"longshore"`
	// Conforms reports whether every check passed, advice excepted unless Strict.
	Conforms bool `json:"conforms"`
	Strict   bool `json:"strict"`
	// Checks sums up the results by check, in the order of the suite.
	Checks []ConformanceCheck `json:"checks"`
	// Findings are the results that did not pass.
	Findings []ConformanceFinding `json:"findings,omitempty"`
	// Vectors is the number of the author's own golden cases.
	Vectors int `json:"vectors"`
}

// ConformanceModule identifies the module of a report.
type ConformanceModule struct {
	Source  string           `json:"source"`
	Name    string           `json:"name,omitempty"`
	Version string           `json:"version,omitempty"`
	Digest  string           `json:"digest,omitempty"`
	Points  []contract.Point `json:"points,omitempty"`
}

// ConformanceCheck counts the results of one check.
type ConformanceCheck struct {
	Check  string `json:"check"`
	Passed int    `json:"passed"`
	Failed int    `json:"failed"`
	// Advice counts results that did not pass and do not count unless the report is strict.
	Advice int `json:"advice"`
}

// ConformanceFinding is a result that did not pass.
type ConformanceFinding struct {
	Check  string `json:"check"`
	Name   string `json:"name"`
	Advice bool   `json:"advice,omitempty"`
	Error  string `json:"error"`
}

const conformExample = `  # Is this module right?
  longshorectl policy conform module.wasm.gz

  # With the golden cases of its author, as a report for a pipeline
  longshorectl policy conform module.wasm.gz --vectors vectors -o yaml > report.yaml`

func conformCommand(streams Streams) *cobra.Command {
	var format output.Format
	var folder string
	var strict bool
	command := &cobra.Command{
		Use:   "conform MODULE [--vectors FOLDER]",
		Short: "Test a module against the conformance suite",
		Long: "Test a module against the conformance suite, in Longshore's host and in stock Extism. No cluster is needed.\n" +
			"MODULE is a .wasm, .wasm.gz or .wasm.zst file, or - for the standard input.\n" +
			"--vectors names a folder with golden cases, *.json, of the module's author; without it the module is asked the golden\n" +
			"questions of its extension points, and its answers are checked for everything but their meaning.\n" +
			"Exit codes: 0 the module conforms, 1 an input cannot be read, 2 wrong command line, 3 the module is refused or does not conform.",
		Example: conformExample,
		Args:    oneModule,
		RunE: func(cmd *cobra.Command, args []string) error {
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
			report, err := Conform(cmd.Context(), args[0], raw, suite.Options{Vectors: own, Strict: strict})
			if err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, streams.Getenv)
			if err := output.Print(streams.Out, format, report, func(w io.Writer) error { return report.text(w, style) }); err != nil {
				return err
			}
			if !report.Conforms {
				return &output.Exit{Code: output.CodeModule}
			}
			return nil
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	flags.StringVar(&folder, "vectors", "", "folder with golden cases of the module, *.json")
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

// Conform runs the conformance suite for a module, and sums its results up. A module that
// does not load is a report with one finding. The error is that of the context.
func Conform(ctx context.Context, source string, raw []byte, options suite.Options) (*ConformanceReport, error) {
	report := &ConformanceReport{
		APIVersion: ConformanceReportVersion, Kind: "PolicyConformanceReport",
		Module: ConformanceModule{Source: source}, Contract: contract.Version, Longshore: version.Version(),
		Strict: options.Strict, Vectors: len(options.Vectors),
	}
	inspection, err := Inspect(ctx, source, raw)
	if err != nil {
		return nil, err
	}
	report.Module.Name, report.Module.Version, report.Module.Digest = inspection.Name, inspection.Version, inspection.Digest
	for i := range inspection.Points {
		report.Module.Points = append(report.Module.Points, inspection.Points[i].Point)
	}
	if !inspection.Accepted {
		report.add([]suite.Result{{Check: "accepted", Name: "load", Err: errors.New(inspection.Verdict)}})
		return report, nil
	}
	results, err := suite.Conform(ctx, raw, options)
	if err != nil {
		return nil, fmt.Errorf("testing %s: %w", source, err)
	}
	report.add(append([]suite.Result{{Check: "accepted", Name: "load"}}, results...))
	return report, nil
}

func (r *ConformanceReport) add(results []suite.Result) {
	r.Conforms = true
	for _, result := range results {
		at := slices.IndexFunc(r.Checks, func(c ConformanceCheck) bool { return c.Check == result.Check })
		if at < 0 {
			r.Checks = append(r.Checks, ConformanceCheck{Check: result.Check})
			at = len(r.Checks) - 1
		}
		check := &r.Checks[at]
		switch {
		case result.Err == nil:
			check.Passed++
			continue
		case result.Advice && !r.Strict:
			check.Advice++
		default:
			check.Failed++
			r.Conforms = false
		}
		r.Findings = append(r.Findings, ConformanceFinding{
			Check: result.Check, Name: result.Name, Advice: result.Advice && !r.Strict, Error: result.Err.Error(),
		})
	}
}

// shownError bounds what the text shows of a finding; the other formats have all of it.
const shownError = 400

func (r *ConformanceReport) text(w io.Writer, style output.Style) error {
	p := &printer{w: w, style: style}
	p.field("Module", strings.TrimSpace(r.Module.Name+" "+r.Module.Version))
	p.field("Digest", r.Module.Digest)
	p.field("Contract", r.Contract)
	p.line("")
	table := &strings.Builder{}
	columns := tabwriter.NewWriter(table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "CHECK\tPASSED\tFAILED\tADVICE")
	for _, check := range r.Checks {
		fmt.Fprintf(columns, "%s\t%d\t%d\t%d\n", check.Check, check.Passed, check.Failed, check.Advice)
	}
	if err := columns.Flush(); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	for line := range strings.Lines(table.String()) {
		p.line("%s", strings.TrimRight(line, "\n"))
	}
	for _, finding := range r.Findings {
		p.line("")
		head := style.Bad("failed")
		if finding.Advice {
			head = output.Painted("advice")
		}
		p.line("%s  %s: %s", head, finding.Check, finding.Name)
		text := finding.Error
		if len(text) > shownError {
			text = strings.ToValidUTF8(text[:shownError], "") + "… (-o yaml has all of it)"
		}
		p.indented(text)
	}
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
