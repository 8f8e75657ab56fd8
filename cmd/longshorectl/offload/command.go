package offload

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	offloadTimeout   = 20 * time.Second
	unoffloadTimeout = 2 * time.Minute

	flagPods       = "pod-offloading-strategy"
	flagMapping    = "namespace-mapping-strategy"
	flagRemoteName = "remote-namespace-name"
	flagSelector   = "selector"
)

var aliases = []string{"namespaces", "ns"}

type offloadFlags struct {
	admin.Flags
	pods, mapping, remoteName, namespaceSelector string
	selectors                                    []string
	format                                       output.Tables
}

// Offload is longshorectl offload namespace.
func Offload(streams admin.Streams) *cobra.Command {
	f := &offloadFlags{}
	command := &cobra.Command{
		Use:     "namespace NAME...",
		Aliases: aliases,
		Short:   "Extend namespaces to the clusters of virtual nodes",
		Long: "Extend namespaces to the clusters of virtual nodes: their pods may run there. Of a namespace that is offloaded, what flags are given for\n" +
			"changes: the pods' strategy and the selector. -o yaml or json prints new objects and creates nothing.\n" +
			"Pods that exist stay where they are: a warning counts those that the strategy does not permit there, and names the commands that create them again.\n" +
			"Exit codes: 0 offloaded, or no virtual node is selected yet, 1 failed, 2 wrong command line.",
		Example: "  longshorectl offload namespace shop\n  longshorectl offload namespace shop --pod-offloading-strategy Remote --selector region=eu",
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, streams, args) },
	}
	f.AddTo(command, "consumer", offloadTimeout)
	set := command.Flags()
	set.StringVar(&f.pods, flagPods, string(offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType), "where pods may run: Local, Remote or LocalAndRemote")
	set.StringVar(&f.mapping, flagMapping, string(offloadingv1beta1.DefaultNameMappingStrategyType), "name of the remote namespace: DefaultName, EnforceSameName or SelectedName")
	set.StringVar(&f.remoteName, flagRemoteName, "", "name of the remote namespace with SelectedName")
	set.StringVar(&f.namespaceSelector, "ns-selector", "", "label selector of the namespaces, instead of names")
	set.StringArrayVarP(&f.selectors, flagSelector, "l", nil, `label selector of virtual nodes, such as region=eu; repeat it for any of several; "" selects all, as a new offloading does without it`)
	f.format.AddTo(set)
	return command
}

func (f *offloadFlags) run(cmd *cobra.Command, streams admin.Streams, names []string) error {
	ctx := cmd.Context()
	selector, err := clusterSelector(f.selectors)
	if err != nil {
		return output.Usage(err)
	}
	spec := offloadingv1beta1.NamespaceOffloadingSpec{
		NamespaceMappingStrategy: offloadingv1beta1.NamespaceMappingStrategyType(f.mapping), RemoteNamespaceName: f.remoteName,
		PodOffloadingStrategy: offloadingv1beta1.PodOffloadingStrategyType(f.pods), ClusterSelector: selector,
	}
	if err := checkNames(names, f.namespaceSelector); err != nil {
		return err
	}
	consumer, err := f.Open()
	if err != nil {
		return err
	}
	if names, err = namespaces(ctx, consumer, names, f.namespaceSelector); err != nil {
		return err
	}
	if err := checkStrategies(&spec, len(names)); err != nil {
		return output.Usage(err)
	}
	var objects []*offloadingv1beta1.NamespaceOffloading
	var steps []admin.Step
	for _, name := range names {
		nso := object(name, spec)
		objects = append(objects, nso)
		steps = append(steps, admin.Step{Title: "Namespace " + name, Run: func(ctx context.Context, waiting admin.Waiting) error {
			return apply(ctx, consumer, nso, func() error { return change(nso, spec, cmd.Flags().Changed) }, waiting)
		}})
	}
	if f.format.Format != output.Text {
		return admin.PrintObjects(streams.Out, f.format.Format, objects, true, nil)
	}
	if err := admin.RunSteps(ctx, streams.Err, f.Timeout, steps); err != nil {
		return err
	}
	for _, nso := range objects {
		if nso.Status.OffloadingPhase == offloadingv1beta1.NoClusterSelectedOffloadingPhaseType {
			fmt.Fprintln(streams.Err, output.Sprintf("Warning: namespace %s selects no virtual node yet; longshorectl get virtualnode lists them", nso.Namespace))
		}
		if misplaced := Misplaced(nso); misplaced != "" {
			fmt.Fprintln(streams.Err, output.Sprintf("Warning: namespace %s: %s", nso.Namespace, misplaced))
		}
	}
	return printTable(streams.Out, objects, f.format.Wide)
}

// apply creates a NamespaceOffloading, or changes the one that exists, and waits until the namespace is offloaded.
func apply(ctx context.Context, consumer *admin.Cluster, nso *offloadingv1beta1.NamespaceOffloading, change func() error, waiting admin.Waiting) error {
	if err := consumer.Write(ctx, nso, func() error {
		if nso.ResourceVersion == "" {
			return nil
		}
		return change()
	}); err != nil {
		return err
	}
	return consumer.Until(ctx, nso, waiting, func() string { return pending(nso) })
}

// checkNames returns a usage error unless namespaces are named in one way.
func checkNames(names []string, selector string) error {
	if (len(names) == 0) == (selector == "") {
		return output.Usagef("name namespaces, or set --ns-selector")
	}
	if _, err := labels.Parse(selector); err != nil {
		return output.Usagef("invalid --ns-selector %q: %w", selector, err)
	}
	return nil
}

// namespaces returns the namespaces that are named and exist, or those that are selected.
func namespaces(ctx context.Context, c *admin.Cluster, names []string, selector string) ([]string, error) {
	if selector == "" {
		for _, name := range names {
			err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
			if apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("namespace %q does not exist at %s", name, c.Host)
			}
			if err != nil {
				return nil, fmt.Errorf("reading namespace %q: %w", name, err)
			}
		}
		slices.Sort(names)
		return slices.Compact(names), nil
	}
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("parsing %q: %w", selector, err)
	}
	list := &corev1.NamespaceList{}
	if err := c.List(ctx, list, client.MatchingLabelsSelector{Selector: parsed}); err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("--ns-selector %q selects no namespace", selector)
	}
	return names, nil
}

func printTable(w io.Writer, objects []*offloadingv1beta1.NamespaceOffloading, wide bool) error {
	header := []string{"NAMESPACE", "REMOTE NAME", "PODS", "PHASE", "CLUSTERS"}
	if wide {
		header = append(header, "MAPPING", "PROBLEM")
	}
	var rows [][]string
	for _, nso := range objects {
		row := []string{
			nso.Namespace, nso.Status.RemoteNamespaceName, string(nso.Spec.PodOffloadingStrategy), string(nso.Status.OffloadingPhase), strings.Join(clusters(nso), ","),
		}
		if wide {
			row = append(row, string(nso.Spec.NamespaceMappingStrategy), Problem(nso))
		}
		rows = append(rows, row)
	}
	return output.Table(w, header, rows)
}

// Unoffload is longshorectl unoffload namespace.
func Unoffload(streams admin.Streams) *cobra.Command {
	f, confirmation := admin.Flags{}, admin.Confirmation{}
	var selector string
	command := &cobra.Command{
		Use:     "namespace NAME...",
		Aliases: aliases,
		Short:   "Withdraw namespaces from other clusters: the remote namespaces are deleted",
		Long: "Withdraw namespaces from other clusters. The remote namespaces are deleted, with all pods, volumes and other objects in them, unless\n" +
			"a provider keeps its namespace (annotation longshore.dev/keep-namespace). A namespace that is not offloaded is not an error.\nExit codes: 0 withdrawn, 1 failed, 2 wrong command line.",
		Example: "  longshorectl unoffload namespace shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNames(args, selector); err != nil {
				return err
			}
			consumer, err := f.Open()
			if err != nil {
				return err
			}
			names, err := namespaces(cmd.Context(), consumer, args, selector)
			if err != nil {
				return err
			}
			return withdraw(cmd.Context(), consumer, streams, names, f.Timeout, confirmation)
		},
	}
	f.AddTo(command, "consumer", unoffloadTimeout)
	command.Flags().StringVar(&selector, "ns-selector", "", "label selector of the namespaces, instead of names")
	confirmation.AddTo(command.Flags())
	return command
}

// withdraw deletes the NamespaceOffloadings of namespaces, and waits until they are gone. Those without one are
// not offloaded.
func withdraw(ctx context.Context, consumer *admin.Cluster, streams admin.Streams, names []string, timeout time.Duration, confirmation admin.Confirmation) error {
	var offloaded []string
	var steps []admin.Step
	for _, name := range names {
		nso := &offloadingv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: offloadingv1beta1.NamespaceOffloadingName, Namespace: name}}
		err := consumer.Get(ctx, client.ObjectKeyFromObject(nso), nso)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading NamespaceOffloading %s/%s: %w", name, nso.Name, err)
		}
		offloaded = append(offloaded, name)
		steps = append(steps, admin.Step{Title: "Namespace " + name, Run: func(ctx context.Context, waiting admin.Waiting) error {
			return consumer.DeleteAll(ctx, []client.Object{nso}, waiting)
		}})
	}
	if len(offloaded) > 0 {
		if err := confirmation.Ask(streams, fmt.Sprintf("This deletes the remote namespaces of %s, with all that is in them.", strings.Join(offloaded, ", "))); err != nil {
			return err
		}
	}
	if err := admin.RunSteps(ctx, streams.Err, timeout, steps); err != nil {
		return err
	}
	for _, name := range names {
		outcome := "unoffloaded"
		if !slices.Contains(offloaded, name) {
			outcome = "is not offloaded"
		}
		if _, err := fmt.Fprintf(streams.Out, "namespace/%s %s\n", name, outcome); err != nil {
			return fmt.Errorf("printing the outcome: %w", err)
		}
	}
	return nil
}
