package peer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// ForceUnpeer is longshorectl force unpeer.
func ForceUnpeer(streams admin.Streams) *cobra.Command {
	f, confirmation, althoughItAnswers := admin.Flags{}, admin.Confirmation{}, false
	command := &cobra.Command{
		Use:   "unpeer CLUSTER-ID",
		Short: "Remove what a cluster that is lost has left in this one",
		Long: "Remove what a cluster that is lost for good has left in this one: virtual nodes and resource slices of a provider, the tenant and the\n" +
			"offloaded namespaces of a consumer, and the tenant namespace. The other cluster is not asked, and what this cluster has there remains. While\n" +
			"the other cluster answers, the command fails: use longshorectl unpeer. With --although-it-answers it leaves a cluster that answers and\n" +
			"does not do what it is asked, such as one that keeps what longshorectl unpeer deletes. It can be repeated after an interruption.\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong command line.",
		Example: "  longshorectl force unpeer milan",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lost := liqocorev1beta1.ClusterID(args[0])
			if err := lost.Validate(); err != nil {
				return output.Usagef("invalid cluster ID: %w", err)
			}
			c, err := f.Open()
			if err != nil {
				return err
			}
			fc, err := findForeignCluster(cmd.Context(), c, lost)
			if err != nil {
				return err
			}
			if !althoughItAnswers {
				if err := checkLost(fc); err != nil {
					return err
				}
			}
			if err := confirmation.Ask(streams, fmt.Sprintf("All virtual nodes, offloaded namespaces and credentials of cluster %q are removed from this cluster, with pods and data of its namespaces.", lost)); err != nil {
				return err
			}
			pair := &Pair{Consumer: c, Provider: &admin.Cluster{ID: lost}}
			if pair.inConsumer, err = c.FindTenantNamespace(cmd.Context(), lost); err != nil {
				return err
			}
			if err := admin.RunSteps(cmd.Context(), streams.Err, f.Timeout, pair.ForceSteps(fc, althoughItAnswers)); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(streams.Out, "cluster %s unpeered\n", lost); err != nil {
				return fmt.Errorf("printing the result: %w", err)
			}
			return nil
		},
	}
	f.AddTo(command, "cluster", peerTimeout)
	confirmation.AddTo(command.Flags())
	command.Flags().BoolVar(&althoughItAnswers, "although-it-answers", false, "leave the other cluster also while it answers: if longshorectl unpeer does not end")
	return command
}

// ForceSteps remove what the provider of the pair, which is lost, has left in the consumer. The
// lost cluster may as well have been a consumer of this one.
func (p *Pair) ForceSteps(fc *liqocorev1beta1.ForeignCluster, althoughItAnswers bool) []admin.Step {
	mark := "true"
	if althoughItAnswers {
		mark = liqocorev1beta1.UnreachableAlthoughItAnswers
	}
	declare := admin.Step{Title: "ForeignCluster " + fc.Name, Run: func(ctx context.Context, _ admin.Waiting) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{liqocorev1beta1.PermanentlyUnreachableAnnotation: mark},
		}})
		if err == nil {
			err = p.Consumer.Patch(ctx, fc, client.RawPatch(types.MergePatchType, patch))
		}
		if err != nil {
			return fmt.Errorf("marking ForeignCluster %s as permanently unreachable: %w", fc.Name, err)
		}
		return nil
	}}
	return append(append([]admin.Step{declare}, p.WithdrawSteps()...), admin.Step{
		Title: "Tenant namespace", Run: func(ctx context.Context, waiting admin.Waiting) error {
			if p.inConsumer == "" {
				return nil
			}
			return p.Consumer.DeleteAll(ctx, []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.inConsumer}}}, waiting)
		},
	})
}

// findForeignCluster returns the ForeignCluster of a cluster.
func findForeignCluster(ctx context.Context, c *admin.Cluster, id liqocorev1beta1.ClusterID) (*liqocorev1beta1.ForeignCluster, error) {
	list := &liqocorev1beta1.ForeignClusterList{}
	if err := c.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing ForeignClusters: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.ClusterID == id {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("this cluster has no ForeignCluster with the ID %q: longshorectl status lists the peers", id)
}

// checkLost returns an error while the API server of a cluster answers.
func checkLost(fc *liqocorev1beta1.ForeignCluster) error {
	for _, condition := range fc.Status.Conditions {
		if condition.Type == liqocorev1beta1.APIServerStatusCondition && condition.Status == liqocorev1beta1.ConditionStatusEstablished {
			return fmt.Errorf("the API server of cluster %q answers: run longshorectl unpeer; if that does not end, add --although-it-answers, and what this cluster has there remains", fc.Spec.ClusterID)
		}
	}
	return nil
}
