package explain

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

const example = `  # Which policies decided about this pod when it was created?
  longshorectl explain pod/web -n shop

  # Why does it not run, and which policies decided on its way to the provider?
  longshorectl explain pod/web -n shop --remote-kubeconfig milan.kubeconfig

  # Which policies dropped labels of this ConfigMap, read in the provider, as JSON
  longshorectl explain configmap/settings -n shop-rome --context milan -o json`

// Command returns `explain`.
func Command(out io.Writer, getenv func(string) string) *cobra.Command {
	var format output.Format
	var here, there cluster.Flags
	command := &cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Show whether a pod runs and why not, and which policies decided about an object",
		Long: "Show which policies decided about an object, and what they wrote and dropped: by point, policy, module and digest, no values.\n" +
			"For a pod, show whether it runs, or else the first thing that is wrong, from its scheduling to the provider's kubelet, and who can correct it.\n" +
			"It looks at the objects that the pod refers to, its containers, probes and readiness gates, and the newest warning, as far as you may read them.\n" +
			"KIND is pod, shadowpod, configmap, secret or service. A pod in the consumer records its admission. Its remote object in the provider records\n" +
			"what was decided on the way there; --remote-kubeconfig or --remote-context reads it as well. Of ConfigMaps and Secrets only metadata is read.\n" +
			"The remote namespace of a pod is that of its node's provider. A pod is diagnosed although its remote object cannot be read.\n" +
			"DECIDES is \"all\", or, when labels and annotations were decided again later, \"spec\" for the decisions at creation and \"metadata\" for the latest ones.\n" +
			"Exit codes: 0 explained, 1 the object cannot be read, 2 wrong command line.",
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := ParseTarget(args)
			if err != nil {
				return err
			}
			consumer, err := here.Connect()
			if err != nil {
				return err
			}
			var provider *cluster.Cluster
			if there.Kubeconfig != "" || there.Context != "" {
				if there.Kubeconfig == "" {
					there.Kubeconfig = here.Kubeconfig
				}
				if provider, err = there.Connect(); err != nil {
					return err
				}
			} else if there.Namespace != "" {
				return output.Usagef("--remote-namespace needs --remote-kubeconfig or --remote-context")
			}
			explanation, err := Explain(cmd.Context(), consumer, target, provider, there.Namespace)
			if err != nil {
				return err
			}
			style := output.StyleOf(out, getenv)
			return output.Print(out, format, explanation, func(w io.Writer) error { return explanation.text(w, style) })
		},
	}
	flags := command.Flags()
	format.AddTo(flags)
	here.AddTo(flags)
	here.AddNamespaceTo(flags)
	flags.StringVar(&there.Kubeconfig, "remote-kubeconfig", "", "kubeconfig file of the provider, to explain the remote object as well")
	flags.StringVar(&there.Context, "remote-context", "", "context of the provider, in --remote-kubeconfig or else --kubeconfig")
	flags.StringVar(&there.Namespace, "remote-namespace", "", "namespace in the provider; looked up in the NamespaceMaps when absent, of several that of the pod's node")
	return command
}
