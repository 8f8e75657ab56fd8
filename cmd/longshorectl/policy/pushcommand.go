package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// target is where a policy is pushed to.
type target struct {
	at              cluster.Flags
	name, namespace string
	spec, report    string
	timeout         time.Duration
}

func (t *target) addTo(flags *pflag.FlagSet) {
	t.at.AddTo(flags)
	flags.StringVar(&t.name, "name", "", "name of the OffloadingPolicy and of its ConfigMap; that of the module when empty")
	flags.StringVarP(&t.namespace, "namespace", "n", "longshore", "namespace of Longshore, for the ConfigMap")
	flags.StringVar(&t.spec, "spec", "", "file with the spec of the OffloadingPolicy, without its module; all points of the module when empty")
	flags.StringVar(&t.report, "report", "", "file with the signed report of the module, for clusters that require one (policy conform --sign-key)")
	flags.DurationVar(&t.timeout, "timeout", 2*time.Minute, "how long to wait until every component uses the policy; 0 does not wait")
}

const pushExample = `  # The objects, for a repository or kubectl apply -f -
  longshorectl policy push module.wasm.gz --spec policy.yaml

  # Load the module into the cluster, and wait until every component uses it
  longshorectl policy push module.wasm.gz --spec policy.yaml --apply`

func pushCommand(streams Streams) *cobra.Command {
	var to target
	var apply bool
	var format output.Format
	command := &cobra.Command{
		Use:   "push MODULE [--spec FILE]",
		Short: "Print or apply the ConfigMap and the OffloadingPolicy of a module",
		Long: "Print the ConfigMap and the OffloadingPolicy of a module, or apply them with --apply. The module is loaded here before, as a cluster\n" +
			"does, its settings are validated, and it is asked the golden questions of its points, as by policy conform. A module that is not compressed is, with gzip; one that is too large for a ConfigMap is\n" +
			"distributed over several.\n" +
			"MODULE is a .wasm, .wasm.gz or .wasm.zst file, or - for the standard input.\n" +
			"Exit codes: 0 printed, or applied and used, 1 a file or the cluster cannot be read or written, or the timeout, 2 wrong command line,\n" +
			"3 the module or its settings are refused.",
		Example: pushExample,
		Args:    oneModule,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !apply && to.at != (cluster.Flags{}) {
				return output.Usagef("--kubeconfig and --context go with --apply: printing needs no cluster")
			}
			pushed, err := streams.prepare(cmd.Context(), args[0], &to)
			if err != nil {
				return err
			}
			if !apply {
				return pushed.print(streams.Out, format)
			}
			if err := to.push(cmd.Context(), pushed); err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, streams.Getenv)
			return output.Print(streams.Out, format, pushed.Policy, func(w io.Writer) error { return pushed.applied(w, style, to.namespace) })
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	to.addTo(flags)
	flags.BoolVar(&apply, "apply", false, "write the objects to the cluster")
	return command
}

// prepare reads the files and returns the objects.
func (s Streams) prepare(ctx context.Context, source string, to *target) (*Pushed, error) {
	raw, err := s.read(source)
	if err != nil {
		return nil, err
	}
	options := &pushOptions{source: source, name: to.name, namespace: to.namespace, module: raw, compile: s.Compiler}
	if to.spec != "" {
		if options.spec, err = s.read(to.spec); err != nil {
			return nil, err
		}
	}
	if to.report != "" {
		if options.report, err = s.read(to.report); err != nil {
			return nil, err
		}
	}
	return objectsOf(ctx, options)
}

// push applies the objects and waits for the components.
func (t *target) push(ctx context.Context, pushed *Pushed) error {
	config, _, err := t.at.Config()
	if err != nil {
		return err
	}
	c, err := admin.Open("cluster", config, t.namespace)
	if err != nil {
		return err
	}
	if err := pushed.apply(ctx, c); err != nil || t.timeout == 0 {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.timeout, fmt.Errorf("not used after --timeout %s; longshorectl policy inspect --policy %s has more", t.timeout, pushed.Policy.Name))
	defer cancel()
	return pushed.await(ctx, c)
}

// applied says what was written to the cluster.
func (p *Pushed) applied(w io.Writer, style output.Style, namespace string) error {
	out := &printer{w: w, style: style}
	out.line("%s OffloadingPolicy %s and %d ConfigMaps in namespace %s", style.Good("Applied:"), p.Policy.Name, len(p.ConfigMaps), namespace)
	return out.err
}

// print writes the objects: YAML documents, or a list as JSON.
func (p *Pushed) print(w io.Writer, format output.Format) error {
	objects := p.objects()
	if format == output.JSON {
		return output.Print(w, format, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}, nil)
	}
	for _, object := range objects {
		encoded, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", object.GetName(), err)
		}
		text, err := yaml.JSONToYAML(encoded)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", object.GetName(), err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return fmt.Errorf("writing the objects: %w", err)
		}
	}
	return nil
}
