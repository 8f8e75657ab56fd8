// Package policy is `longshorectl policy`: it looks into policy modules and tries them, with
// the very code that loads and asks them in a cluster.
package policy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

// Streams are where a command reads and writes.
type Streams struct {
	In  io.Reader
	Out io.Writer
	// Getenv reads the environment.
	Getenv func(string) string
	// Compiler compiles modules under the limits of a cluster; nil compiles them in this process,
	// without limits.
	Compiler engine.Compiler
}

// Command returns `policy` with its subcommands.
func Command(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "policy",
		Short: "Write, inspect, try and test policy modules",
	}
	output.Group(command)
	command.AddCommand(initCommand(streams), buildCommand(streams), inspectCommand(streams), runCommand(streams), testCommand(streams),
		conformCommand(streams), benchCommand(streams), explainCommand(streams), verifyCommand(streams), pushCommand(streams), watchCommand(streams))
	return command
}

// oneModule wants a MODULE.
func oneModule(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return output.Usagef("want one module: a .wasm, .wasm.gz or .wasm.zst file, or - for the standard input; got %d arguments", len(args))
	}
	return nil
}

const inspectExample = `  # What would this module see and change, and would a cluster take it?
  longshorectl policy inspect module.wasm.gz

  # What does the cluster run, does it work, and is it what stands in its ConfigMap?
  longshorectl policy inspect --policy registry-rewrite

  # The module of a ConfigMap
  kubectl -n longshore get configmap registry-rewrite -o jsonpath='{.binaryData.module\.wasm\.gz}' | base64 -d | longshorectl policy inspect -`

func inspectCommand(streams Streams) *cobra.Command {
	var format output.Format
	var from cluster.Flags
	var name string
	command := &cobra.Command{
		Use:   "inspect MODULE | --policy NAME",
		Short: "Show what a module is, what it reads and writes, and whether a cluster would take it; or what a cluster runs",
		Long: "Show what a module is, what it reads and writes, and whether a cluster would take it.\n" +
			"MODULE is a .wasm, .wasm.gz or .wasm.zst file, or - for the standard input.\n" +
			"With --policy, show what a cluster runs: the OffloadingPolicy's digest, points, reads and writes, components, failures and\n" +
			"shadow differences; its module is read and loaded here too, and what does not fit together is listed.\n" +
			"Exit codes: 0 the module loads, or the policy is ready and nothing disagrees; 1 it cannot be read; 2 wrong command line;\n" +
			"3 the module is refused, or the policy is not as it should be.",
		Example: inspectExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if name == "" {
				return oneModule(cmd, args)
			}
			if len(args) > 0 {
				return output.Usagef("want a MODULE or --policy, not both")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			style := output.StyleOf(streams.Out, streams.Getenv)
			if name != "" {
				return inspectLive(cmd, streams, from, name, format, style)
			}
			if from != (cluster.Flags{}) {
				return output.Usagef("--kubeconfig and --context go with --policy: a file needs no cluster")
			}
			raw, err := streams.read(args[0])
			if err != nil {
				return err
			}
			report, err := Inspect(cmd.Context(), streams.Compiler, args[0], raw)
			if err != nil {
				return err
			}
			if err := output.Print(streams.Out, format, report, func(w io.Writer) error { return report.text(w, style) }); err != nil {
				return err
			}
			if !report.Accepted {
				return &output.Exit{Code: output.CodeModule}
			}
			return nil
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	from.AddTo(flags)
	flags.StringVar(&name, "policy", "", "name of an OffloadingPolicy in the cluster")
	return command
}

func inspectLive(cmd *cobra.Command, streams Streams, from cluster.Flags, name string, format output.Format, style output.Style) error {
	connected, err := from.Connect()
	if err != nil {
		return err
	}
	live, err := InspectLive(cmd.Context(), streams.Compiler, connected, name)
	if err != nil {
		return err
	}
	if err := output.Print(streams.Out, format, live, func(w io.Writer) error { return live.text(w, style) }); err != nil {
		return err
	}
	if !live.healthy() {
		return &output.Exit{Code: output.CodeModule}
	}
	return nil
}

const runExample = `  # What would this policy do to this pod, on its way to the provider?
  longshorectl policy run module.wasm.gz --point PodMutation --moment Offload --input pod.yaml --spec policy.yaml

  # The same, for a program
  longshorectl policy run module.wasm.gz --input facts.json -o json`

func runCommand(streams Streams) *cobra.Command {
	var format output.Format
	var options RunOptions
	var input, settings, spec string
	command := &cobra.Command{
		Use:   "run MODULE --input FILE",
		Short: "Ask a module one question, and show what comes of the answer",
		Long: "Ask a module one question, as a cluster would, and show what comes of the answer.\n" +
			"MODULE is a .wasm, .wasm.gz or .wasm.zst file, or - for the standard input.\n" +
			"The input is one object, the facts of the point as an object with the member \"object\", or a conformance vector; YAML or JSON.\n" +
			"At a point about pods the object is a Pod, or a kind with a pod template, such as a Deployment: its pod is asked about.\n" +
			"The changed object is checked as far as a cluster is not needed: it must decode as its kind, its labels and annotations must be valid,\n" +
			"and the invariants must hold. Validation of the other fields, quotas and admission plugins are left to the API server:\n" +
			"kubectl apply --dry-run=server of the object printed with -o yaml runs them.\n" +
			"Exit codes: 0 answered, 1 an input cannot be read, 2 wrong command line, 3 the module is refused or gave no valid answer, 4 the policy refused the object.",
		Example: runExample,
		Args:    oneModule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := streams.readInputs(&options, args[0], input, settings, spec); err != nil {
				return err
			}
			options.Compiler = streams.Compiler
			report, err := Run(cmd.Context(), options)
			if err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, streams.Getenv)
			if err := output.Print(streams.Out, format, report, func(w io.Writer) error { return report.text(w, style) }); err != nil {
				return err
			}
			return report.exit()
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	flags.StringVarP(&input, "input", "i", "", "file with the object or the facts, or - for the standard input")
	flags.StringVar(&options.Point, "point", "", "extension point; needed when the module answers several")
	flags.StringVar(&options.Moment, "moment", "", "Admission or Offload, for PodMutation; needed when the module answers at both")
	flags.StringVar(&settings, "settings", "", "file with the settings of the policy")
	flags.StringVar(&spec, "spec", "", "file with the spec of an OffloadingPolicy, as policy.yaml in a ConfigMap: its settings, limits and allow are used")
	flags.Uint64Var(&options.Fuel, "fuel", 0, "fuel of the call in ticks, at most the host's bound; the bound when zero")
	return command
}

func (s Streams) readInputs(options *RunOptions, module, input, settings, spec string) error {
	if input == "" {
		return output.Usagef("--input is missing: name a file with a pod, or with the facts of the point")
	}
	if settings != "" && spec != "" {
		return output.Usagef("--settings and --spec exclude each other: the spec has settings of its own")
	}
	paths := []string{module, input, settings, spec}
	if first := slices.Index(paths, "-"); first >= 0 && slices.Contains(paths[first+1:], "-") {
		return output.Usagef("only one of MODULE, --input, --settings and --spec can be the standard input")
	}
	options.Name, options.InputName = module, input
	for i, target := range []*[]byte{&options.Module, &options.Input, &options.Settings, &options.Spec} {
		if paths[i] == "" {
			continue
		}
		var err error
		if *target, err = s.read(paths[i]); err != nil {
			return err
		}
	}
	return nil
}

// maxInput bounds what is read: above all that a cluster takes.
const maxInput = 64 << 20

func (s Streams) read(path string) ([]byte, error) {
	from := s.In
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("reading the input: %w", err)
		}
		defer file.Close()
		from = file
	}
	data, err := io.ReadAll(io.LimitReader(from, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(data) > maxInput {
		return nil, fmt.Errorf("reading %s: it is larger than %d MiB", path, maxInput>>20)
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("reading %s: %w", path, errors.New("it is empty"))
	}
	return data, nil
}
