package resourceslice

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/virtualnode"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/peering/authentication"
)

const timeout = 2 * time.Minute

// aliases are the names of the kind that kubectl knows, too.
var aliases = []string{"resourceslices", "rslice", "rs"}

type createFlags struct {
	admin.Flags
	peer          admin.PeerFlag
	quantities    admin.ResourceFlags
	class         string
	noVirtualNode bool
	format        output.Tables
}

// Create is longshorectl create resourceslice.
func Create(streams admin.Streams) *cobra.Command {
	f := &createFlags{}
	command := &cobra.Command{
		Use:     "resourceslice NAME",
		Aliases: aliases,
		Short:   "Ask a provider for resources, and make a virtual node of them",
		Long: "Ask a provider, with which this cluster is peered, for resources, and make a virtual node of them. For a slice that exists, resources that\n" +
			"are not named stay as they are. -o yaml or json prints the object, which can be edited and applied, and creates nothing.\n" +
			"The provider may grant another amount than was asked for, which is shown.\n" +
			"Exit codes: 0 granted, 1 failed, 2 wrong command line, 4 the provider denied the slice.",
		Example: "  longshorectl create resourceslice mypool --remote-cluster-id milan --cpu 8 --memory 16Gi --pods 50\n" +
			"  longshorectl create resourceslice gpus --remote-cluster-id milan --resource nvidia.com/gpu=2 --no-virtual-node",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), streams, args[0]) },
	}
	f.AddTo(command, "consumer", timeout)
	set := command.Flags()
	f.peer.AddTo(set, "cluster ID of the provider")
	f.quantities.AddTo(set, "ask for", "the provider's default when absent")
	set.StringVar(&f.class, "class", defaultClass, "class of the ResourceSlice")
	set.BoolVar(&f.noVirtualNode, "no-virtual-node", false, "do not make a virtual node of the slice")
	f.format.AddTo(set)
	return command
}

func (f *createFlags) run(ctx context.Context, streams admin.Streams, name string) error {
	request := Request{Name: name, Class: f.class, VirtualNode: !f.noVirtualNode}
	provider, err := f.peer.Required()
	if err != nil {
		return err
	}
	if err := admin.CheckNodeName(name); err != nil {
		return err
	}
	if request.Resources, err = f.quantities.Parse(); err != nil {
		return err
	}
	consumer, err := f.Open()
	if err != nil {
		return err
	}
	namespace, err := consumer.RequireTenantNamespace(ctx, provider)
	if err != nil {
		return err
	}
	if f.format.Format != output.Text {
		return output.Print(streams.Out, f.format.Format, request.Object(namespace, provider), nil)
	}
	if err := checkConflicts(ctx, consumer, request, namespace); err != nil {
		return err
	}
	var granted *Granted
	steps := []admin.Step{{Title: "Resources of " + string(provider), Run: func(ctx context.Context, waiting admin.Waiting) (err error) {
		granted, err = Apply(ctx, consumer, namespace, provider, request, waiting)
		return err
	}}}
	if request.VirtualNode {
		steps = append(steps, admin.Step{Title: "Virtual node " + name, Run: func(ctx context.Context, waiting admin.Waiting) error {
			return virtualnode.WaitOf(ctx, consumer, granted.Slice, waiting)
		}})
	}
	if err := admin.RunSteps(ctx, streams.Err, f.Timeout, steps); err != nil {
		return err
	}
	if err := Print(streams.Out, f.format, []*authv1beta1.ResourceSlice{granted.Slice}, true, time.Now()); err != nil || granted.Note == "" {
		return err
	}
	_, err = fmt.Fprintln(streams.Out, output.Sprintf("%s", granted.Note))
	return err //nolint:wrapcheck // A closed pipe.
}

// checkConflicts reads what has the name of a request, before anything is written.
func checkConflicts(ctx context.Context, consumer *admin.Cluster, request Request, namespace string) error {
	all, err := List(ctx, consumer)
	if err != nil {
		return err
	}
	node := &corev1.Node{}
	if err := consumer.Get(ctx, client.ObjectKey{Name: request.Name}, node); apierrors.IsNotFound(err) {
		node = nil
	} else if err != nil {
		return fmt.Errorf("reading Node %s: %w", request.Name, err)
	}
	return conflict(request, namespace, all, node)
}

// conflict returns why a slice cannot have its name: slices, and the Nodes made of them, have
// names that are unique in the cluster.
func conflict(request Request, namespace string, all []*authv1beta1.ResourceSlice, node *corev1.Node) error {
	for _, other := range all {
		if other.Name == request.Name && other.Namespace != namespace && !IsCopy(other) {
			return fmt.Errorf("ResourceSlice %q exists in namespace %s: the names of slices are unique in a cluster; choose another name", other.Name, other.Namespace)
		}
	}
	if request.VirtualNode && node != nil && node.Labels[offloadingv1beta1.NodeTypeLabel] != offloadingv1beta1.NodeTypeVirtual {
		return fmt.Errorf("Node %q exists and is not a virtual node: choose another name, or set --no-virtual-node", node.Name) //nolint:staticcheck // A kind.
	}
	return nil
}

// List returns the slices of a cluster, its own and copies of others.
func List(ctx context.Context, c *admin.Cluster) ([]*authv1beta1.ResourceSlice, error) {
	list := &authv1beta1.ResourceSliceList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ResourceSlices: %w", err)
	}
	all := make([]*authv1beta1.ResourceSlice, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	admin.Sort(all)
	return all, nil
}

// Get is longshorectl get resourceslice.
func Get(streams admin.Streams) *cobra.Command {
	f, peer, format := admin.Flags{}, admin.PeerFlag{}, output.Tables{}
	command := &cobra.Command{
		Use:     "resourceslice [NAME]",
		Aliases: aliases,
		Short:   "List what this cluster gets from its providers and grants to its consumers",
		Example: "  longshorectl get resourceslice\n  longshorectl get resourceslice mypool --remote-cluster-id milan -o yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := peer.Optional()
			if err != nil {
				return err
			}
			c, err := f.Open()
			if err != nil {
				return err
			}
			all, err := List(cmd.Context(), c)
			if err != nil {
				return err
			}
			found := filter(all, args, id)
			if len(args) > 0 && len(found) == 0 {
				return fmt.Errorf("ResourceSlice %q does not exist at %s", args[0], c.Host)
			}
			return Print(streams.Out, format, found, len(args) > 0, time.Now())
		},
	}
	f.AddTo(command, "cluster", 0)
	peer.AddTo(command.Flags(), "only slices of this peer")
	format.AddTo(command.Flags())
	return command
}

// filter returns the slices of a name, unless there is none, and of a peer, unless it is empty.
func filter(all []*authv1beta1.ResourceSlice, names []string, peer liqocorev1beta1.ClusterID) []*authv1beta1.ResourceSlice {
	var found []*authv1beta1.ResourceSlice
	for _, slice := range all {
		if (len(names) == 0 || slice.Name == names[0]) && (peer == "" || slice.Labels[liqocorev1beta1.RemoteClusterIDLabel] == string(peer)) {
			found = append(found, slice)
		}
	}
	return found
}

// Print prints slices.
func Print(w io.Writer, format output.Tables, all []*authv1beta1.ResourceSlice, one bool, now time.Time) error {
	return admin.PrintObjects(w, format.Format, all, one, func(w io.Writer) error {
		header := []string{"NAME", "PEER", "ACTION", "AUTH", "RESOURCES", "CPU", "MEMORY", "PODS", "AGE"}
		if format.Wide {
			header = append(header, "CLASS", "OTHERS", "CORDONED", "NAMESPACE")
		}
		var rows [][]string
		for _, slice := range all {
			rows = append(rows, row(slice, format.Wide, now))
		}
		return output.Table(w, header, rows)
	})
}

func row(slice *authv1beta1.ResourceSlice, wide bool, now time.Time) []string {
	action := "Consuming"
	if IsCopy(slice) {
		action = "Providing"
	}
	status := func(kind authv1beta1.ResourceSliceConditionType) string {
		if c := ConditionOf(slice, kind); c != nil {
			return string(c.Status)
		}
		return "Pending"
	}
	cells := []string{
		slice.Name, slice.Labels[liqocorev1beta1.RemoteClusterIDLabel], action,
		status(authv1beta1.ResourceSliceConditionTypeAuthentication), status(authv1beta1.ResourceSliceConditionTypeResources),
	}
	cells = append(cells, admin.Quantities(slice.Status.Resources, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods)...)
	cells = append(cells, admin.Age(slice, now))
	if wide {
		cells = append(cells, string(slice.Spec.Class), admin.Others(slice.Status.Resources), Cordoned(slice), slice.Namespace)
	}
	return cells
}

// Cordoned returns what was cordoned by the provider's administrator: "tenant", "slice" or "".
func Cordoned(slice client.Object) string {
	switch {
	case authentication.IsCordonedBy(slice, authv1beta1.CordonTenantAnnotation):
		return "tenant"
	case authentication.IsCordonedBy(slice, authv1beta1.CordonAnnotation):
		return "slice"
	default:
		return ""
	}
}

// Delete is longshorectl delete resourceslice.
func Delete(streams admin.Streams) *cobra.Command {
	d, peer := deleter{streams: streams}, admin.PeerFlag{}
	command := &cobra.Command{
		Use:     "resourceslice NAME",
		Aliases: aliases,
		Short:   "Return resources to a provider; the virtual node made of them is drained",
		Long: "Return resources to a provider: delete the slice and the virtual node that was made of it, which drains its pods. It fails while another\n" +
			"virtual node uses the slice, and names the pods without a controller and, with the last virtual node of a provider, the remote namespaces\n" +
			"and the claims that end, and asks before.\n" +
			"A slice that does not exist is not an error.\nExit codes: 0 deleted, 1 failed, 2 wrong command line.",
		Example: "  longshorectl delete resourceslice mypool",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := peer.Optional()
			if err != nil {
				return err
			}
			if d.consumer, err = d.flags.Open(); err != nil {
				return err
			}
			return d.run(cmd.Context(), args, id)
		},
	}
	d.flags.AddTo(command, "consumer", 10*time.Minute)
	peer.AddTo(command.Flags(), "cluster ID of the provider; any when absent")
	d.confirmation.AddTo(command.Flags())
	return command
}

// deleter deletes a slice of a consumer.
type deleter struct {
	flags        admin.Flags
	confirmation admin.Confirmation
	streams      admin.Streams
	consumer     *admin.Cluster
}

func (d *deleter) run(ctx context.Context, names []string, peer liqocorev1beta1.ClusterID) error {
	consumer, streams := d.consumer, d.streams
	all, err := List(ctx, consumer)
	if err != nil {
		return err
	}
	nodes := &offloadingv1beta1.VirtualNodeList{}
	if err := consumer.Client.List(ctx, nodes); err != nil {
		return fmt.Errorf("listing VirtualNodes: %w", err)
	}
	slice, owned, err := deletion(filter(all, names, peer), nodes.Items)
	if err != nil {
		return err
	}
	if slice == nil {
		_, err := fmt.Fprintf(streams.Out, "resourceslice/%s does not exist\n", names[0])
		return err //nolint:wrapcheck // A closed pipe.
	}
	ending, err := consumer.Ending(ctx, ptr.Deref(slice.Spec.ProviderClusterID, ""), owned)
	if err != nil {
		return err
	}
	if err := d.confirmation.Ask(streams, ending); err != nil {
		return err
	}
	steps := []admin.Step{{Title: "Resource slice " + slice.Name, Run: func(ctx context.Context, waiting admin.Waiting) error {
		return consumer.DeleteAll(ctx, []client.Object{slice}, waiting)
	}}}
	for _, vn := range owned {
		steps = append(steps, admin.Step{Title: "Virtual node " + vn.Name, Run: func(ctx context.Context, waiting admin.Waiting) error {
			return virtualnode.WaitGone(ctx, consumer, vn, waiting)
		}})
	}
	if err := admin.RunSteps(ctx, streams.Err, d.flags.Timeout, steps); err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "resourceslice/%s deleted\n", slice.Name)
	return err //nolint:wrapcheck // A closed pipe.
}

// deletion returns the slice to delete, nil if there is none, and the VirtualNodes that the
// garbage collector deletes with it. A VirtualNode that uses the slice and is not made of it
// would lose its credentials before it is drained.
func deletion(found []*authv1beta1.ResourceSlice, nodes []offloadingv1beta1.VirtualNode) (*authv1beta1.ResourceSlice, []*offloadingv1beta1.VirtualNode, error) {
	var slice *authv1beta1.ResourceSlice
	for _, candidate := range found {
		if IsCopy(candidate) {
			continue
		}
		if slice != nil {
			return nil, nil, output.Usagef("namespaces %s and %s have a ResourceSlice %q: set --remote-cluster-id", slice.Namespace, candidate.Namespace, slice.Name)
		}
		slice = candidate
	}
	if slice == nil {
		if len(found) > 0 {
			return nil, nil, fmt.Errorf("ResourceSlice %q is the request of consumer %s, which would send it again: run longshorectl cordon resourceslice, or drain tenant",
				found[0].Name, found[0].Labels[liqocorev1beta1.OriginIDLabel])
		}
		return nil, nil, nil
	}
	secret := authentication.KubeconfigSecretName(authentication.SliceIdentityName(slice.Name))
	var owned []*offloadingv1beta1.VirtualNode
	for i := range nodes {
		vn := &nodes[i]
		switch ref := vn.Spec.KubeconfigSecretRef; {
		case vn.Namespace != slice.Namespace || ref == nil || ref.Name != secret:
		case admin.IsOwnedBy(vn, "ResourceSlice"):
			owned = append(owned, vn)
		default:
			return nil, nil, fmt.Errorf("VirtualNode %q uses the slice: run longshorectl delete virtualnode %[1]s first", vn.Name)
		}
	}
	return slice, owned, nil
}
