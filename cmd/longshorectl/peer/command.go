// Package peer is longshorectl peer, unpeer, authenticate and unauthenticate: what two
// administrators, or one of both clusters, run to let a consumer use a provider.
package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
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
	f.local.AddTo(set)
	f.remote.AddRemoteTo(set)
	set.StringVarP(&f.namespace, "namespace", "n", "longshore", "namespace of Longshore in the local cluster, the consumer")
	set.StringVar(&f.remoteNamespace, "remote-namespace", "longshore", "namespace of Longshore in the remote cluster, the provider")
	set.DurationVar(&f.timeout, "timeout", timeout, "how long to wait in all")
	f.format.AddTo(set)
}

// connect reaches both clusters.
func (f *flags) connect(ctx context.Context) (*Pair, error) {
	if f.remote.Kubeconfig == "" && f.remote.Context == "" {
		return nil, output.Usagef("set --remote-kubeconfig or --remote-context: the remote cluster is the provider")
	}
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
	consumer, err := Connect(ctx, "consumer", localConfig, f.namespace)
	if err != nil {
		return nil, err
	}
	provider, err := Connect(ctx, "provider", remoteConfig, f.remoteNamespace)
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
	// State is Peered, Authenticated or NotPeered.
	State string `json:"state"`
}

func (r *Result) text(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "CONSUMER\tPROVIDER\tSTATE\tVIRTUAL NODE")
	node := r.VirtualNode
	if node == "" {
		node = "-"
	}
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.Consumer, r.Provider, r.State, node)
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the result: %w", err)
	}
	return nil
}

// Streams are where the commands print: results and progress.
type Streams struct {
	Out io.Writer
	Err *os.File
}

// run runs the steps with progress.
func (f *flags) run(ctx context.Context, streams Streams, steps []Step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("not done after --timeout %s; the command can be repeated", f.timeout))
	defer cancel()
	progress := console.New(streams.Err)
	for _, step := range steps {
		if err := progress.Step(step.Title, func(detail func(string)) error { return step.Run(ctx, detail) }); err != nil {
			return err
		}
	}
	return nil
}

func (f *flags) print(streams Streams, pair *Pair, result *Result) error {
	result.Consumer, result.Provider = string(pair.Consumer.ID), string(pair.Provider.ID)
	result.ConsumerNamespace, result.ProviderNamespace = pair.inConsumer, pair.inProvider
	return output.Print(streams.Out, f.format, result, result.text)
}

// sliceFlags say what to ask of the provider.
type sliceFlags struct {
	create, virtualNode bool
	class               string
	cpu, memory, pods   string
	others              map[string]string
}

func (s *sliceFlags) addTo(set *pflag.FlagSet) {
	set.BoolVar(&s.create, "create-resource-slice", true, "ask the provider for resources")
	set.BoolVar(&s.virtualNode, "create-virtual-node", true, "make a virtual node of the resources")
	set.StringVar(&s.class, "resource-slice-class", "default", "class of the ResourceSlice")
	set.StringVar(&s.cpu, "cpu", "", "CPUs to ask for, such as 4; the provider's default when absent")
	set.StringVar(&s.memory, "memory", "", "memory to ask for, such as 8Gi; the provider's default when absent")
	set.StringVar(&s.pods, "pods", "", "number of pods to ask for; the provider's default when absent")
	set.StringToStringVar(&s.others, "resource", nil, "another resource to ask for, NAME=QUANTITY; may be repeated")
}

// slice parses the flags.
func (s *sliceFlags) slice(name string) (Slice, error) {
	slice := Slice{Name: name, Class: s.class, VirtualNode: s.virtualNode, Resources: corev1.ResourceList{}}
	values := map[string]string{"cpu": s.cpu, "memory": s.memory, "pods": s.pods}
	for resourceName, value := range s.others {
		values[resourceName] = value
	}
	var errs []error
	for resourceName, value := range values {
		if value == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(value)
		if err != nil || quantity.Sign() < 0 {
			errs = append(errs, fmt.Errorf("invalid quantity %q of resource %s", value, resourceName))
			continue
		}
		slice.Resources[corev1.ResourceName(resourceName)] = quantity
	}
	if err := errors.Join(errs...); err != nil {
		return Slice{}, output.Usage(err)
	}
	return slice, nil
}

// Commands returns the commands of this package.
func Commands(streams Streams) []*cobra.Command {
	return []*cobra.Command{peerCommand(streams), unpeerCommand(streams), authenticateCommand(streams), unauthenticateCommand(streams)}
}

func peerCommand(streams Streams) *cobra.Command {
	f, slice := flags{}, sliceFlags{}
	var proxyURL string
	command := &cobra.Command{
		Use:   "peer",
		Short: "Let the local cluster use the remote one, and make a virtual node of it",
		Long: "Let the local cluster, the consumer, use the remote one, the provider: exchange keys, have the provider issue credentials, ask it for\n" +
			"resources, and make a virtual node of them. Each step takes up what an earlier run left, so the command can be repeated after an\n" +
			"interruption, and to repair a peering. There is no networking module: pods on both sides reach each other only over networks that exist.\n" +
			"Exit codes: 0 peered, 1 a step failed, 2 wrong command line.",
		Example: peerExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pair, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			wanted, err := slice.slice(string(pair.Provider.ID))
			if err != nil {
				return err
			}
			pair.ProxyURL = proxyURL
			steps, result := pair.AuthenticateSteps(), &Result{State: "Authenticated"}
			if slice.create {
				steps = append(steps, pair.SliceSteps(wanted)...)
				result.State, result.ResourceSlice = "Peered", wanted.Name
				if slice.virtualNode {
					result.VirtualNode = wanted.Name
				}
			}
			if err := f.run(cmd.Context(), streams, steps); err != nil {
				return err
			}
			return f.print(streams, pair, result)
		},
	}
	f.addTo(command.Flags(), peerTimeout)
	slice.addTo(command.Flags())
	command.Flags().StringVar(&proxyURL, "proxy-url", "", "HTTP CONNECT proxy through which the consumer reaches the provider's API server")
	command.Flags().Bool("networking-disabled", true, "peer without networking; accepted for scripts of Liqo, and the only way there is")
	return command
}

func unpeerCommand(streams Streams) *cobra.Command {
	f := flags{}
	var deleteNamespaces bool
	command := &cobra.Command{
		Use:   "unpeer",
		Short: "End the peering: drain virtual nodes, return resources, take credentials back",
		Long: "End the peering of the local cluster, the consumer, with the remote one, the provider: delete its resource slices and virtual nodes, which\n" +
			"drains their pods, then the consumer's credentials, then its tenant in the provider. The command can be repeated after an interruption.\n" +
			"Exit codes: 0 done, 1 a step failed, 2 wrong command line.",
		Example: "  longshorectl unpeer --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pair, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			if err := pair.FindTenantNamespaces(cmd.Context()); err != nil {
				return err
			}
			steps := append(pair.WithdrawSteps(), pair.UnauthenticateSteps()...)
			if deleteNamespaces {
				if err := pair.CheckOneDirection(cmd.Context()); err != nil {
					return err
				}
				steps = append(steps, pair.DeleteNamespacesStep())
			}
			if err := f.run(cmd.Context(), streams, steps); err != nil {
				return err
			}
			return f.print(streams, pair, &Result{State: "NotPeered"})
		},
	}
	f.addTo(command.Flags(), peerTimeout)
	command.Flags().BoolVar(&deleteNamespaces, "delete-namespaces", false, "delete the tenant namespaces in both clusters, too")
	return command
}

func authenticateCommand(streams Streams) *cobra.Command {
	f := flags{}
	var proxyURL string
	command := &cobra.Command{
		Use:     "authenticate",
		Aliases: []string{"auth"},
		Short:   "Give the local cluster credentials for the remote one, and nothing else",
		Long:    "Give the local cluster, the consumer, credentials for the remote one, the provider. longshorectl peer does this first.",
		Example: "  longshorectl authenticate --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pair, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			pair.ProxyURL = proxyURL
			if err := f.run(cmd.Context(), streams, pair.AuthenticateSteps()); err != nil {
				return err
			}
			return f.print(streams, pair, &Result{State: "Authenticated"})
		},
	}
	f.addTo(command.Flags(), authenticateTimeout)
	command.Flags().StringVar(&proxyURL, "proxy-url", "", "HTTP CONNECT proxy through which the consumer reaches the provider's API server")
	return command
}

func unauthenticateCommand(streams Streams) *cobra.Command {
	f := flags{}
	command := &cobra.Command{
		Use:     "unauthenticate",
		Aliases: []string{"unauth"},
		Short:   "Take the credentials back that authenticate gave",
		Long:    "Take the credentials of the local cluster for the remote one back. It fails while resource slices or virtual nodes use them.",
		Example: "  longshorectl unauthenticate --kubeconfig rome.kubeconfig --remote-kubeconfig milan.kubeconfig",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pair, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			if err := pair.FindTenantNamespaces(cmd.Context()); err != nil {
				return err
			}
			if err := f.run(cmd.Context(), streams, pair.UnauthenticateSteps()); err != nil {
				return err
			}
			return f.print(streams, pair, &Result{State: "NotPeered"})
		},
	}
	f.addTo(command.Flags(), authenticateTimeout)
	return command
}
