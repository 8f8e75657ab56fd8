package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/conformance/suite"
	"github.com/longshore-dev/longshore/host/policy/module"
	"github.com/longshore-dev/longshore/host/policysource/attestation"
)

// sign writes a report in an envelope that is signed with the key in a file.
func (s Streams) sign(ctx context.Context, report *suite.Report, file string) error {
	key, err := s.read(file)
	if err != nil {
		return fmt.Errorf("reading --sign-key: %w", err)
	}
	document, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	envelope, err := attestation.Sign(ctx, document, key)
	if err != nil {
		return fmt.Errorf("signing the report with %s: %w", file, err)
	}
	if _, err := fmt.Fprintf(s.Out, "%s\n", envelope); err != nil {
		return fmt.Errorf("writing the signed report: %w", err)
	}
	return nil
}

const verifyExample = `  # Does this report say that this module conforms, and who signed it?
  longshorectl policy verify-report report.dsse.json --key key.pub --module module.wasm.gz`

// verification is what verify-report prints.
type verification struct {
	// Report is the signed document; nil if no key verifies it.
	Report *attestation.Report `json:"report,omitempty"`
	// Accepted reports whether a cluster with these keys would bind the module.
	Accepted bool `json:"accepted"`
	// Reason is why not.
	Reason string `json:"reason,omitempty"`
}

func verifyCommand(streams Streams) *cobra.Command {
	var format output.Format
	var keys []string
	var moduleFile string
	command := &cobra.Command{
		Use:   "verify-report REPORT --key FILE [--module FILE]",
		Short: "Check the signature of a conformance report, and that it is about a module",
		Long: "Check that one of the keys signed a conformance report, that it says that the module conforms, and that the module is the one in the\n" +
			"file --module. A cluster with the value policies.reportKeys does the same before it binds the module.\n" +
			"REPORT is what policy conform --sign-key writes, or - for the standard input.\n" +
			"Exit codes: 0 accepted, 1 a file cannot be read, 2 wrong command line, 3 the report is not accepted.",
		Example: verifyExample,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(keys) == 0 {
				return output.Usagef("--key is missing: name a file with a public key")
			}
			result, err := streams.verify(cmd.Context(), args[0], keys, moduleFile)
			if err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, streams.Getenv)
			if err := output.Print(streams.Out, format, result, func(w io.Writer) error { return result.text(w, style) }); err != nil {
				return err
			}
			if !result.Accepted {
				return &output.Exit{Code: output.CodeModule}
			}
			return nil
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	flags.StringArrayVar(&keys, "key", nil, "file with a public key in PEM; may be repeated")
	flags.StringVar(&moduleFile, "module", "", "module that the report must be about")
	return command
}

func (s Streams) verify(ctx context.Context, file string, keyFiles []string, moduleFile string) (*verification, error) {
	envelope, err := s.read(file)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, keyFile := range keyFiles {
		key, err := s.read(keyFile)
		if err != nil {
			return nil, err
		}
		keys = append(keys, string(key))
	}
	parsed, err := attestation.ParseKeys(keys)
	if err != nil {
		return nil, fmt.Errorf("reading --key: %w", err)
	}
	report, err := parsed.Open(ctx, envelope)
	if err != nil {
		return &verification{Reason: err.Error()}, nil
	}
	digest := report.Module.Digest
	if moduleFile != "" {
		raw, err := s.read(moduleFile)
		if err != nil {
			return nil, err
		}
		wasm, err := module.Unpack(raw)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", moduleFile, err)
		}
		digest = module.Digest(wasm)
	}
	if err := report.Accepts(digest); err != nil {
		return &verification{Report: report, Reason: err.Error()}, nil
	}
	return &verification{Report: report, Accepted: true}, nil
}

func (v *verification) text(w io.Writer, style output.Style) error {
	p := &printer{w: w, style: style}
	if v.Report != nil {
		p.field("Module", v.Report.Module.Name+" "+v.Report.Module.Version)
		p.field("Digest", v.Report.Module.Digest)
		p.field("Contract", v.Report.Contract+", suite "+v.Report.Suite)
	}
	if v.Accepted {
		p.line("%s a key that you named signed that the module conforms", style.Good("Accepted:"))
	} else {
		p.line("%s %s", style.Bad("Not accepted:"), v.Reason)
	}
	return p.err
}
