package tenancy

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

const timeout = 2 * time.Minute

const exitCodes = "Exit codes: 0 done, or there was nothing to do, 1 failed, 2 wrong command line."

// Cordon is longshorectl cordon.
func Cordon(streams admin.Streams) []*cobra.Command {
	return []*cobra.Command{
		tenantCommand(streams, cordon, "Grant a consumer no new slices and no new pods", "What runs stays."),
		sliceCommand(streams, cordon, "Accept no new pods on one slice of a consumer"),
	}
}

// Uncordon is longshorectl uncordon.
func Uncordon(streams admin.Streams) []*cobra.Command {
	return []*cobra.Command{
		tenantCommand(streams, uncordon, "Undo cordon tenant", "It does not undo drain tenant: use activate tenant."),
		sliceCommand(streams, uncordon, "Undo cordon resourceslice"),
	}
}

// Drain is longshorectl drain.
func Drain(streams admin.Streams) []*cobra.Command {
	return []*cobra.Command{tenantCommand(streams, drain, "Take slices, rights and offloaded namespaces of a consumer away",
		"The offloaded namespaces are deleted, with all pods, volumes and other objects in them. longshorectl activate tenant lets the consumer come back\n"+
			"without them.")}
}

// Activate is longshorectl activate.
func Activate(streams admin.Streams) []*cobra.Command {
	return []*cobra.Command{tenantCommand(streams, activate, "Undo cordon tenant and drain tenant", "Data that a drain deleted does not come back.")}
}

func tenantCommand(streams admin.Streams, do verb, short, long string) *cobra.Command {
	f, confirmation := admin.Flags{}, admin.Confirmation{}
	command := &cobra.Command{
		Use:     "tenant NAME",
		Aliases: []string{"tenants", "tn"},
		Short:   short,
		Long:    short + "; run it in the provider. NAME is the Tenant, which has the cluster ID of the consumer.\n" + long + "\n" + exitCodes,
		Example: "  longshorectl " + string(do) + " tenant rome",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			provider, err := f.Open()
			if err != nil {
				return err
			}
			tenant, err := findTenant(cmd.Context(), provider, args[0])
			if err != nil {
				return err
			}
			want, notice := next(tenant.Name, tenant.Spec.TenantCondition, do)
			if notice != "" {
				fmt.Fprintln(streams.Err, output.Sprintf("Warning: %s", notice))
				if tenant.Spec.TenantCondition != want {
					return printOutcome(streams.Out, "tenant", tenant.Name, string(tenant.Spec.TenantCondition))
				}
			}
			if do == drain && notice == "" {
				ending, err := provider.EndingWithTenant(cmd.Context(), tenant.Spec.ClusterID)
				if err != nil {
					return err
				}
				if err := confirmation.Ask(streams, ending); err != nil {
					return err
				}
			}
			// A condition that is set already may not have had its effect yet.
			if err := admin.RunSteps(cmd.Context(), streams.Err, f.Timeout, []admin.Step{{
				Title: "Tenant " + tenant.Name, Run: func(ctx context.Context, waiting admin.Waiting) error {
					return setCondition(ctx, provider, tenant, want, waiting)
				},
			}}); err != nil {
				return err
			}
			return printOutcome(streams.Out, "tenant", tenant.Name, string(want))
		},
	}
	f.AddTo(command, "provider", timeout)
	confirmation.AddTo(command.Flags())
	return command
}

// findTenant returns the Tenant of a name, in whatever namespace it is.
func findTenant(ctx context.Context, provider *admin.Cluster, name string) (*authv1beta1.Tenant, error) {
	list := &authv1beta1.TenantList{}
	if err := provider.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing Tenants: %w", err)
	}
	var found *authv1beta1.Tenant
	for i := range list.Items {
		if list.Items[i].Name != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("namespaces %s and %s have a Tenant %q: delete the one that is not in the tenant namespace", found.Namespace, list.Items[i].Namespace, name)
		}
		found = &list.Items[i]
	}
	if found == nil {
		return nil, fmt.Errorf("Tenant %q does not exist at %s: run this in the provider; kubectl get tenants -A lists its consumers", name, provider.Host) //nolint:staticcheck // A kind.
	}
	if found.Spec.TenantCondition == "" {
		found.Spec.TenantCondition = authv1beta1.TenantConditionActive
	}
	return found, nil
}

func setCondition(ctx context.Context, provider *admin.Cluster, tenant *authv1beta1.Tenant, want authv1beta1.TenantCondition, waiting admin.Waiting) error {
	if tenant.Spec.TenantCondition != want {
		before := tenant.DeepCopy()
		tenant.Spec.TenantCondition = want
		if err := provider.Patch(ctx, tenant, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("changing Tenant %s: %w", tenant.Name, err)
		}
	}
	return admin.Poll(ctx, waiting, func() (string, error) {
		if err := provider.Get(ctx, client.ObjectKeyFromObject(tenant), tenant); err != nil {
			return "", fmt.Errorf("reading Tenant %s: %w", tenant.Name, err)
		}
		slices, maps := &authv1beta1.ResourceSliceList{}, &offloadingv1beta1.NamespaceMapList{}
		if err := provider.List(ctx, slices, client.InNamespace(tenant.Namespace)); err != nil {
			return "", fmt.Errorf("listing ResourceSlices: %w", err)
		}
		if err := provider.List(ctx, maps, client.InNamespace(tenant.Namespace)); err != nil {
			return "", fmt.Errorf("listing NamespaceMaps: %w", err)
		}
		var names []string
		for i := range maps.Items {
			if resourceslice.IsCopy(&maps.Items[i]) {
				names = append(names, maps.Items[i].Name)
			}
		}
		return pending(tenant, slices.Items, names), nil
	})
}

func sliceCommand(streams admin.Streams, do verb, short string) *cobra.Command {
	f, peer, confirmation := admin.Flags{}, admin.PeerFlag{}, admin.Confirmation{}
	command := &cobra.Command{
		Use:     "resourceslice NAME",
		Aliases: []string{"resourceslices", "rslice", "rs"},
		Short:   short,
		Long:    short + "; run it in the provider. Pods that run stay.\n" + exitCodes,
		Example: "  longshorectl " + string(do) + " resourceslice mypool --remote-cluster-id rome",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			consumer, err := peer.Required()
			if err != nil {
				return err
			}
			provider, err := f.Open()
			if err != nil {
				return err
			}
			namespace, err := provider.RequireTenantNamespace(cmd.Context(), consumer)
			if err != nil {
				return err
			}
			if err := cordonSlice(cmd.Context(), provider, client.ObjectKey{Namespace: namespace, Name: args[0]}, do == cordon); err != nil {
				return err
			}
			return printOutcome(streams.Out, "resourceslice", args[0], string(do)+"ed")
		},
	}
	f.AddTo(command, "provider", timeout)
	peer.AddTo(command.Flags(), "cluster ID of the consumer")
	confirmation.AddTo(command.Flags())
	return command
}

func cordonSlice(ctx context.Context, provider *admin.Cluster, key client.ObjectKey, cordoned bool) error {
	slice := &authv1beta1.ResourceSlice{}
	err := provider.Get(ctx, key, slice)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("ResourceSlice %s does not exist at %s: longshorectl get resourceslice lists them", key, provider.Host)
	case err != nil:
		return fmt.Errorf("reading ResourceSlice %s: %w", key, err)
	case !resourceslice.IsCopy(slice):
		return fmt.Errorf("ResourceSlice %s is a request of this cluster: only its provider can cordon it", key)
	}
	before := slice.DeepCopy()
	if !setCordon(slice, cordoned) {
		return nil
	}
	if err := provider.Patch(ctx, slice, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing ResourceSlice %s: %w", key, err)
	}
	return nil
}

func printOutcome(w io.Writer, kind, name, outcome string) error {
	if _, err := fmt.Fprintln(w, output.Sprintf("%s/%s %s", kind, name, outcome)); err != nil {
		return fmt.Errorf("printing the outcome: %w", err)
	}
	return nil
}
