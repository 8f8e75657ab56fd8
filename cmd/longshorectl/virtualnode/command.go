package virtualnode

import (
	"context"
	"errors"
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
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const (
	createTimeout = 2 * time.Minute
	deleteTimeout = 10 * time.Minute
)

// aliases are the names of the kind that kubectl knows, too.
var aliases = []string{"virtualnodes", "vn", "vnode"}

// Get is longshorectl get virtualnode.
func Get(streams admin.Streams) *cobra.Command {
	f, peer, format := admin.Flags{}, admin.PeerFlag{}, output.Tables{}
	command := &cobra.Command{
		Use:     "virtualnode [NAME]",
		Aliases: aliases,
		Short:   "List the virtual nodes of this cluster",
		Example: "  longshorectl get virtualnode\n  longshorectl get virtualnode mynode -o yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := peer.Optional()
			if err != nil {
				return err
			}
			consumer, err := f.Open()
			if err != nil {
				return err
			}
			found, err := find(cmd.Context(), consumer, args, id)
			if err != nil {
				return err
			}
			if len(args) > 0 && len(found) == 0 {
				return fmt.Errorf("VirtualNode %q does not exist at %s", args[0], consumer.Host)
			}
			return Print(streams.Out, format, found, len(args) > 0, time.Now())
		},
	}
	f.AddTo(command, "consumer", 0)
	peer.AddTo(command.Flags(), "only virtual nodes of this provider")
	format.AddTo(command.Flags())
	return command
}

// find returns the VirtualNodes of a name, unless there is none, and of a provider, unless it is
// empty.
func find(ctx context.Context, c *admin.Cluster, names []string, provider liqocorev1beta1.ClusterID) ([]*offloadingv1beta1.VirtualNode, error) {
	list := &offloadingv1beta1.VirtualNodeList{}
	if err := c.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	var found []*offloadingv1beta1.VirtualNode
	for i := range list.Items {
		vn := &list.Items[i]
		if (len(names) == 0 || vn.Name == names[0]) && (provider == "" || vn.Spec.ClusterID == provider) {
			found = append(found, vn)
		}
	}
	admin.Sort(found)
	return found, nil
}

// Print prints VirtualNodes. The template of the virtual kubelet's Deployment, which Longshore
// fills in, is left out of encoded objects.
func Print(w io.Writer, format output.Tables, all []*offloadingv1beta1.VirtualNode, one bool, now time.Time) error {
	for _, vn := range all {
		vn.Spec.Template = nil
	}
	return admin.PrintObjects(w, format.Format, all, one, func(w io.Writer) error {
		header := []string{"NAME", "PROVIDER", "NODE", "KUBELET", "CPU", "MEMORY", "PODS", "AGE"}
		if format.Wide {
			header = append(header, "OTHERS", "SECRET", "CREATE NODE", "NAMESPACE")
		}
		var rows [][]string
		for _, vn := range all {
			rows = append(rows, row(vn, format.Wide, now))
		}
		return output.Table(w, header, rows)
	})
}

func row(vn *offloadingv1beta1.VirtualNode, wide bool, now time.Time) []string {
	cells := []string{
		vn.Name, string(vn.Spec.ClusterID),
		string(ConditionStatus(vn, offloadingv1beta1.NodeConditionType)), string(ConditionStatus(vn, offloadingv1beta1.VirtualKubeletConditionType)),
	}
	cells = append(cells, admin.Quantities(vn.Spec.ResourceQuota.Hard, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods)...)
	cells = append(cells, admin.Age(vn, now))
	if wide {
		cells = append(cells, admin.Others(vn.Spec.ResourceQuota.Hard), ptr.Deref(vn.Spec.KubeconfigSecretRef, corev1.LocalObjectReference{}).Name,
			fmt.Sprint(ptr.Deref(vn.Spec.CreateNode, true)), vn.Namespace)
	}
	return cells
}

// ConditionStatus returns the status of a condition of a VirtualNode.
func ConditionStatus(vn *offloadingv1beta1.VirtualNode, kind offloadingv1beta1.VirtualNodeConditionType) offloadingv1beta1.VirtualNodeConditionStatusType {
	for _, c := range vn.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return offloadingv1beta1.NoneConditionStatusType
}

// Delete is longshorectl delete virtualnode.
func Delete(streams admin.Streams) *cobra.Command {
	f, peer, confirmation := admin.Flags{}, admin.PeerFlag{}, admin.Confirmation{}
	command := &cobra.Command{
		Use:     "virtualnode NAME",
		Aliases: aliases,
		Short:   "Drain and delete a virtual node; the resource slice stays",
		Long: "Drain and delete a virtual node that longshorectl create virtualnode or a manifest made. One that was made of a resource slice would be made\n" +
			"again: delete the slice instead. It names the pods without a controller and, with the last virtual node of a provider, the remote\n" +
			"namespaces and the claims that end, and asks before.\n" +
			"A virtual node that does not exist is not an error.\nExit codes: 0 deleted, 1 failed, 2 wrong command line.",
		Example: "  longshorectl delete virtualnode mynode",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := peer.Optional()
			if err != nil {
				return err
			}
			consumer, err := f.Open()
			if err != nil {
				return err
			}
			found, err := find(cmd.Context(), consumer, args, id)
			if err != nil {
				return err
			}
			vn, err := deletion(found)
			if err != nil {
				return err
			}
			outcome := "does not exist"
			if vn != nil {
				ending, err := consumer.Ending(cmd.Context(), vn.Spec.ClusterID, []*offloadingv1beta1.VirtualNode{vn})
				if err != nil {
					return err
				}
				if err := confirmation.Ask(streams, ending); err != nil {
					return err
				}
				outcome = "deleted"
				steps := []admin.Step{{Title: "Virtual node " + vn.Name, Run: func(ctx context.Context, waiting admin.Waiting) error {
					if err := consumer.DeleteAll(ctx, []client.Object{vn}, waiting); err != nil {
						return err
					}
					return WaitGone(ctx, consumer, vn, waiting)
				}}}
				if err := admin.RunSteps(cmd.Context(), streams.Err, f.Timeout, steps); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintf(streams.Out, "virtualnode/%s %s\n", args[0], outcome); err != nil {
				return fmt.Errorf("printing the result: %w", err)
			}
			return nil
		},
	}
	f.AddTo(command, "consumer", deleteTimeout)
	peer.AddTo(command.Flags(), "cluster ID of the provider; any when absent")
	confirmation.AddTo(command.Flags())
	return command
}

// deletion returns the VirtualNode to delete, nil if there is none.
func deletion(found []*offloadingv1beta1.VirtualNode) (*offloadingv1beta1.VirtualNode, error) {
	switch {
	case len(found) == 0:
		return nil, nil
	case len(found) > 1:
		return nil, output.Usagef("namespaces %s and %s have a VirtualNode %q: set --remote-cluster-id", found[0].Namespace, found[1].Namespace, found[0].Name)
	case admin.IsOwnedBy(found[0], "ResourceSlice"):
		return nil, fmt.Errorf("VirtualNode %q is made of a ResourceSlice and would be made again: run longshorectl delete resourceslice %[1]s", found[0].Name)
	default:
		return found[0], nil
	}
}

// checkNode fails when a Node has the name of a new VirtualNode.
func checkNode(ctx context.Context, c *admin.Cluster, name string) error {
	node := &corev1.Node{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Node %s: %w", name, err)
	default:
		return fmt.Errorf("Node %q exists: choose another name", name) //nolint:staticcheck // A kind.
	}
}

// errNoCredentials is a usage error.
var errNoCredentials = errors.New("set either --resource-slice-name or --kubeconfig-secret-name: it has the credentials for the provider")
