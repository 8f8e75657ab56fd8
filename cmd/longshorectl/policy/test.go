package policy

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/conformance/vectors"
	"github.com/longshore-dev/longshore/host/policy/module"
)

// TestReport is the result of a module's golden cases.
type TestReport struct {
	Module string `json:"module"`
	Digest string `json:"digest"`
	Passed int    `json:"passed"`
	Failed int    `json:"failed"`
	// Cases in the order of their files.
	Cases []TestCase `json:"cases"`
}

// TestCase is the result of one golden case.
type TestCase struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Error is the difference between the answer and the expected one; empty if there is none.
	Error string `json:"error,omitempty"`
}

const testExample = `  # Does the module answer the cases in vectors/?
  longshorectl policy test module.wasm.gz

  # Those of another folder, for a program
  longshorectl policy test module.wasm.gz --vectors cases -o json`

func testCommand(streams Streams) *cobra.Command {
	var format output.Format
	var folder string
	command := &cobra.Command{
		Use:   "test MODULE [--vectors FOLDER]",
		Short: "Ask a module the golden cases of its author",
		Long: "Ask a module the golden cases of its author, *.json of a folder: the answer must be that of the case, and if the case has an object\n" +
			"and a result, the operations must turn one into the other. No cluster is needed. policy conform tests everything else, too.\n" +
			"MODULE is a .wasm, .wasm.gz or .wasm.zst file, or - for the standard input.\n" +
			"Exit codes: 0 all cases pass, 1 an input cannot be read, 2 wrong command line, 3 the module is refused or a case fails.",
		Example: testExample,
		Args:    oneModule,
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := streams.test(cmd.Context(), args[0], folder)
			if err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, streams.Getenv)
			if err := output.Print(streams.Out, format, report, func(w io.Writer) error { return report.text(w, style) }); err != nil {
				return err
			}
			if report.Failed > 0 {
				return &output.Exit{Code: output.CodeModule}
			}
			return nil
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	flags.StringVar(&folder, "vectors", "vectors", "folder with the golden cases, *.json")
	return command
}

// test asks a module the golden cases of a folder.
func (s Streams) test(ctx context.Context, source, folder string) (report *TestReport, err error) {
	raw, err := s.read(source)
	if err != nil {
		return nil, err
	}
	cases, err := readVectors(folder)
	if err != nil {
		return nil, err
	}
	host, err := suite.NewLongshore(ctx, raw, suite.Options{Compiler: s.Compiler})
	if err != nil {
		return nil, refusedModule(ctx, source, err)
	}
	defer func() { err = errors.Join(err, host.Close(ctx)) }()
	report = &TestReport{Module: host.Manifest().Name, Digest: host.Digest()}
	for i := range cases {
		result := TestCase{Name: cases[i].Name, Description: cases[i].Description}
		if err := checkCase(ctx, host, &cases[i]); err != nil {
			result.Error = err.Error()
			report.Failed++
		} else {
			report.Passed++
		}
		report.Cases = append(report.Cases, result)
	}
	return report, nil
}

func checkCase(ctx context.Context, host *suite.Longshore, v *vectors.Vector) error {
	if err := suite.Check(ctx, host, v); err != nil {
		return err
	}
	return suite.CheckResult(v)
}

// refusedModule returns an error with the exit code of a module that does not load.
func refusedModule(ctx context.Context, source string, err error) error {
	err = fmt.Errorf("loading %s: %w", source, err)
	if ctx.Err() != nil || !module.AtFault(err) {
		return err
	}
	return &output.Exit{Code: output.CodeModule, Err: err}
}

func (r *TestReport) text(w io.Writer, style output.Style) error {
	p := &printer{w: w, style: style}
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.Error == "" {
			p.line("%s  %s", style.Good("passed"), c.Name)
			continue
		}
		p.line("%s  %s: %s", style.Bad("failed"), c.Name, c.Description)
		p.indented(cut(c.Error))
	}
	p.line("%s: %d cases passed, %d failed", r.Module, r.Passed, r.Failed)
	return p.err
}
