package policy

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/plan"
	"github.com/longshore-dev/longshore/host/policy/chain"
)

const explainExample = `  # Which policy does what to this pod? From files, without a cluster
  longshorectl policy explain -f pod.yaml --offline --policies policies/

  # With the policies, virtual nodes and namespaces of a cluster
  longshorectl policy explain -f pod.yaml --kubeconfig rome.kubeconfig`

func explainCommand(streams Streams) *cobra.Command {
	var from plan.Flags
	var format output.Format
	command := &cobra.Command{
		Use:   "explain -f FILE",
		Short: "Show what each policy does to a pod, from its admission to the provider",
		Long: "Show each evaluation of an extension point on the way of a pod, from its admission to the object that is sent to the provider:\n" +
			"which policies are called, in which order, what each changes, and why a pod is denied. longshorectl plan shows what becomes of it.\n" +
			"As kubectl, the command reads the cluster of --kubeconfig, KUBECONFIG or the kubeconfig in the home folder. With --offline, and\n" +
			"without a kubeconfig, it reads files only, and what they do not have is assumed. Nothing is written.\n" +
			"Exit codes: 0 no policy refuses a pod or fails, 1 a file or the cluster cannot be read, 2 wrong command line, 3 a policy fails,\n" +
			"4 a policy refuses a pod.",
		Example: explainExample,
		Args:    from.Args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := from.Options(streams.In)
			if err != nil {
				return err
			}
			result, err := plan.Explain(cmd.Context(), options)
			if err != nil {
				return err
			}
			style := output.StyleOf(streams.Out, streams.Getenv)
			if err := output.Print(streams.Out, format, result, func(w io.Writer) error { return explainText(w, style, result) }); err != nil {
				return err
			}
			return exitOf(result)
		},
	}
	from.AddTo(command.Flags())
	format.AddTo(command.Flags())
	return command
}

// exitOf returns the exit code of the first failure or denial.
func exitOf(result *plan.Explanation) error {
	for i := range result.Pods {
		for _, e := range result.Pods[i].Evaluations {
			switch {
			case e.Error != "":
				return &output.Exit{Code: output.CodeModule}
			case e.Denied != "":
				return &output.Exit{Code: output.CodeDenied}
			}
		}
	}
	return nil
}

func explainText(w io.Writer, style output.Style, result *plan.Explanation) error {
	p := &printer{w: w, style: style}
	for i := range result.Pods {
		pod := &result.Pods[i]
		p.section(pod.Namespace + "/" + pod.Plan.String() + ", " + string(pod.Result))
		for j := range pod.Evaluations {
			p.evaluation(&pod.Evaluations[j])
		}
		if len(pod.Evaluations) == 0 {
			p.line("  no policy is asked")
		}
		if pod.Reason != nil {
			p.line("  %s", pod.Reason.Message)
		}
		for _, assumed := range pod.Assumed {
			p.line("  assumed: %s", assumed)
		}
	}
	for _, problem := range result.Problems {
		p.line("%s", style.Bad(problem))
	}
	return p.err
}

func (p *printer) evaluation(e *plan.Evaluation) {
	title := e.Point
	if e.Moment != "" {
		title += " at " + e.Moment
	}
	p.line("  %s", p.style.Title(title))
	for i := range e.Policies {
		a := &e.Policies[i]
		did := strings.Join(a.Changes, ", ")
		if did == "" {
			did = "changed nothing"
		}
		p.line("    %s (%s): %s", a.Policy, chain.ShortDigest(a.Digest), did)
		for _, kept := range a.Kept {
			p.line("      tried to change the reserved key %s", kept)
		}
		if a.Ignored != "" {
			p.line("      %s", p.style.Bad("failed and was skipped: "+a.Ignored))
		}
	}
	if len(e.Policies) == 0 && e.Error == "" {
		p.line("    no policy matches")
	}
	if e.Denied != "" {
		p.line("    %s", p.style.Bad(e.Denied))
	}
	if e.Error != "" {
		p.line("    %s", p.style.Bad(e.Error))
	}
	for _, warning := range e.Warnings {
		p.line("    warning: %s", warning)
	}
}
