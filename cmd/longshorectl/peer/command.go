// Package peer is longshorectl peer, unpeer, authenticate and unauthenticate: what two
// administrators, or one of both clusters, run to let a consumer use a provider.
package peer

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
)

const (
	peerTimeout         = 10 * time.Minute
	authenticateTimeout = 2 * time.Minute

	peerExample = `  # Let this cluster use another one, and make a virtual node of it
  longshorectl peer --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig

  # Ask for more than the provider's defaults
  longshorectl peer --remote-kubeconfig milan.kubeconfig --cpu 16 --memory 64Gi --pods 200`
)

// flags are those of every command on two clusters.
type flags struct {
	local, remote   cluster.Flags
	namespace       string
	remoteNamespace string
	timeout         time.Duration
	format          output.Format
}

func (f *flags) addTo(set *pflag.FlagSet, timeout time.Duration) {
	f.local.AddAllTo(set)
	f.remote.AddRemoteTo(set)
	set.StringVarP(&f.namespace, "namespace", "n", "longshore", "namespace of Longshore in the local cluster, the consumer")
	set.StringVar(&f.remoteNamespace, "remote-namespace", "longshore", "namespace of Longshore in the remote cluster, the provider")
	set.DurationVar(&f.timeout, "timeout", timeout, "how long to wait in all")
	f.format.AddTo(set)
}

// connect reaches both clusters.
func (f *flags) connect(ctx context.Context) (*Pair, error) {
	if f.remote.Kubeconfig == "" && f.remote.Context == "" && f.remote.Cluster == "" {
		return nil, output.Usagef("set --remote-kubeconfig or --remote-context: the remote cluster is the provider")
	}
	f.remote.Verbose = f.local.Verbose
	if f.remote.Kubeconfig == "" {
		f.remote.Kubeconfig = f.local.Kubeconfig
	}
	localConfig, _, err := f.local.Config()
	if err != nil {
		return nil, err
	}
	remoteConfig, _, err := f.remote.Config()
	if err != nil {
		return nil, err
	}
	if localConfig.Host == remoteConfig.Host {
		return nil, output.Usagef("both kubeconfigs are of the cluster at %s: a cluster cannot peer with itself", localConfig.Host)
	}
	consumer, err := admin.Connect(ctx, "consumer", localConfig, f.namespace)
	if err != nil {
		return nil, err
	}
	provider, err := admin.Connect(ctx, "provider", remoteConfig, f.remoteNamespace)
	if err != nil {
		return nil, err
	}
	if consumer.ID == provider.ID {
		return nil, fmt.Errorf("both clusters have the ID %q: install Longshore under another clusterID in one of them", consumer.ID)
	}
	return &Pair{Consumer: consumer, Provider: provider}, nil
}

// Result is what a command prints at its end.
type Result struct {
	Consumer string `json:"consumer"`
	Provider string `json:"provider"`
	// ConsumerNamespace and ProviderNamespace are the tenant namespaces.
	ConsumerNamespace string `json:"consumerNamespace,omitempty"`
	ProviderNamespace string `json:"providerNamespace,omitempty"`
	// ResourceSlice and VirtualNode are what was made of the peering.
	ResourceSlice string `json:"resourceSlice,omitempty"`
	VirtualNode   string `json:"virtualNode,omitempty"`
	// Granted is what the provider grants, and Note how that differs from the request.
	Granted corev1.ResourceList `json:"granted,omitempty"`
	Note    string              `json:"note,omitempty"`
	// State is Peered, Authenticated or NotPeered.
	State string `json:"state"`
}

func (r *Result) text(w io.Writer) error {
	node := r.VirtualNode
	if node == "" {
		node = "-"
	}
	if err := output.Table(w, []string{"CONSUMER", "PROVIDER", "STATE", "VIRTUAL NODE"}, [][]string{{r.Consumer, r.Provider, r.State, node}}); err != nil || r.Note == "" {
		return err
	}
	_, err := fmt.Fprintln(w, output.Sprintf("%s", r.Note))
	return err //nolint:wrapcheck // A closed pipe.
}

// action is a command on two clusters.
type action struct {
	// command has its texts.
	command cobra.Command
	timeout time.Duration
	// addFlags adds flags of its own; nil for none.
	addFlags func(*pflag.FlagSet)
	// check checks these flags before any cluster is reached; nil for none.
	check func() error
	// plan returns the steps, and the result when all of them succeed.
	plan func(context.Context, *Pair) ([]admin.Step, *Result, error)
	// destroys says what ends, before which the command asks; nil for none.
	destroys func(context.Context, *Pair) (string, error)
}

// build returns the command, which runs the steps with progress and prints the result.
func (a *action) build(streams admin.Streams) *cobra.Command {
	f, confirmation, command := flags{}, admin.Confirmation{}, &a.command
	command.Args = cobra.NoArgs
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if a.check != nil {
			if err := a.check(); err != nil {
				return err
			}
		}
		pair, err := f.connect(cmd.Context())
		if err != nil {
			return err
		}
		steps, result, err := a.plan(cmd.Context(), pair)
		if err != nil {
			return err
		}
		if a.destroys != nil {
			ending, err := a.destroys(cmd.Context(), pair)
			if err != nil {
				return err
			}
			if err := confirmation.Ask(streams, ending); err != nil {
				return err
			}
		}
		if err := admin.RunSteps(cmd.Context(), streams.Err, f.timeout, steps); err != nil {
			return err
		}
		result.Consumer, result.Provider = string(pair.Consumer.ID), string(pair.Provider.ID)
		result.ConsumerNamespace, result.ProviderNamespace = pair.inConsumer, pair.inProvider
		if pair.granted != nil {
			result.Granted, result.Note = pair.granted.Slice.Status.Resources, pair.granted.Note
		}
		return output.Print(streams.Out, f.format, result, result.text)
	}
	f.addTo(command.Flags(), a.timeout)
	if a.addFlags != nil {
		a.addFlags(command.Flags())
	}
	if a.destroys != nil {
		confirmation.AddTo(command.Flags())
	}
	return command
}

// Commands returns the commands of this package.
func Commands(streams admin.Streams) []*cobra.Command {
	var commands []*cobra.Command
	for _, a := range []*action{peering(), unpeering(), authenticating(), unauthenticating()} {
		commands = append(commands, a.build(streams))
	}
	return commands
}

func addProxyTo(set *pflag.FlagSet, value *string) {
	set.StringVar(value, "proxy-url", "", "HTTP CONNECT proxy through which the consumer reaches the provider's API server")
}

func peering() *action {
	var proxyURL string
	var create, noNetworking bool
	request, quantities := resourceslice.Request{}, admin.ResourceFlags{}
	return &action{
		command: cobra.Command{
			Use:   "peer",
			Short: "Let the local cluster use the remote one, and make a virtual node of it",
			Long: "Let the local cluster, the consumer, use the remote one, the provider: exchange keys, have the provider issue credentials, ask it for\n" +
				"resources, and make a virtual node of them. Each step takes up what an earlier run left, so the command can be repeated after an\n" +
				"interruption, and to repair a peering. There is no networking module: pods on both sides reach each other only over networks that exist.\n" +
				"Exit codes: 0 peered, 1 a step failed, 2 wrong command line, 4 the provider denied the resources.",
			Example: peerExample,
		},
		timeout: peerTimeout,
		addFlags: func(set *pflag.FlagSet) {
			set.BoolVar(&create, "create-resource-slice", true, "ask the provider for resources")
			set.BoolVar(&request.VirtualNode, "create-virtual-node", true, "make a virtual node of the resources")
			set.StringVar(&request.Class, "resource-slice-class", "default", "class of the ResourceSlice")
			set.BoolVar(&noNetworking, "networking-disabled", true, "peer without networking; accepted for scripts of Liqo, and the only way there is")
			quantities.AddTo(set, "ask for", "the provider's default when absent")
			addProxyTo(set, &proxyURL)
		},
		check: func() (err error) {
			if !noNetworking {
				return output.Usagef("--networking-disabled=false is not possible: Longshore has no networking module; connect the pod networks by other means")
			}
			request.Resources, err = quantities.Parse()
			return err
		},
		plan: func(_ context.Context, pair *Pair) ([]admin.Step, *Result, error) {
			pair.ProxyURL, request.Name = proxyURL, string(pair.Provider.ID)
			steps, result := pair.AuthenticateSteps(), &Result{State: "Authenticated"}
			if create {
				steps = append(steps, pair.SliceSteps(request)...)
				result.State, result.ResourceSlice = "Peered", request.Name
				if request.VirtualNode {
					result.VirtualNode = request.Name
				}
			}
			return steps, result, nil
		},
	}
}

func unpeering() *action {
	var deleteNamespaces bool
	return &action{
		command: cobra.Command{
			Use:   "unpeer",
			Short: "End the peering: drain virtual nodes, return resources, take credentials back",
			Long: "End the peering of the local cluster, the consumer, with the remote one, the provider: delete its resource slices and virtual nodes, which\n" +
				"drains their pods, then the consumer's credentials, then its tenant in the provider. The command can be repeated after an interruption.\n" +
				"It names the pods without a controller, the remote namespaces and the claims that end, and asks before.\n" +
				"Exit codes: 0 done, 1 a step failed, 2 wrong command line.",
			Example: "  longshorectl unpeer --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig",
		},
		timeout:  peerTimeout,
		destroys: func(ctx context.Context, pair *Pair) (string, error) { return pair.ending(ctx) },
		addFlags: func(set *pflag.FlagSet) {
			set.BoolVar(&deleteNamespaces, "delete-namespaces", false, "delete the tenant namespaces in both clusters, too")
		},
		plan: func(ctx context.Context, pair *Pair) ([]admin.Step, *Result, error) {
			if err := pair.FindTenantNamespaces(ctx); err != nil {
				return nil, nil, err
			}
			steps := append(pair.WithdrawSteps(), pair.UnauthenticateSteps()...)
			if deleteNamespaces {
				if err := pair.CheckOneDirection(ctx); err != nil {
					return nil, nil, err
				}
				steps = append(steps, pair.DeleteNamespacesStep())
			}
			return steps, &Result{State: "NotPeered"}, nil
		},
	}
}

func authenticating() *action {
	var proxyURL string
	return &action{
		command: cobra.Command{
			Use:     "authenticate",
			Aliases: []string{"auth"},
			Short:   "Give the local cluster credentials for the remote one, and nothing else",
			Long:    "Give the local cluster, the consumer, credentials for the remote one, the provider. longshorectl peer does this first.",
			Example: "  longshorectl authenticate --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig",
		},
		timeout:  authenticateTimeout,
		addFlags: func(set *pflag.FlagSet) { addProxyTo(set, &proxyURL) },
		plan: func(_ context.Context, pair *Pair) ([]admin.Step, *Result, error) {
			pair.ProxyURL = proxyURL
			return pair.AuthenticateSteps(), &Result{State: "Authenticated"}, nil
		},
	}
}

func unauthenticating() *action {
	return &action{
		command: cobra.Command{
			Use:     "unauthenticate",
			Aliases: []string{"unauth"},
			Short:   "Take the credentials back that authenticate gave",
			Long:    "Take the credentials of the local cluster for the remote one back. It fails while resource slices or virtual nodes use them.",
			Example: "  longshorectl unauthenticate --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig",
		},
		timeout: authenticateTimeout,
		plan: func(ctx context.Context, pair *Pair) ([]admin.Step, *Result, error) {
			if err := pair.FindTenantNamespaces(ctx); err != nil {
				return nil, nil, err
			}
			return pair.UnauthenticateSteps(), &Result{State: "NotPeered"}, nil
		},
	}
}
