package virtualnode

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
)

type createFlags struct {
	admin.Flags
	peer                            admin.PeerFlag
	quantities                      admin.ResourceFlags
	template                        string
	createNode, disableNetworkCheck bool
	spec                            Spec
	format                          output.Tables
}

// Create is longshorectl create virtualnode.
func Create(streams admin.Streams) *cobra.Command {
	f := &createFlags{}
	command := &cobra.Command{
		Use:     "virtualnode NAME",
		Aliases: aliases,
		Short:   "Make a virtual node of an existing resource slice, or of a kubeconfig Secret",
		Long: "Make a virtual node of an existing resource slice, or of a Secret with a kubeconfig in the tenant namespace. Virtual nodes of one slice share\n" +
			"its resources. For a virtual node that exists, only what is named changes. -o yaml or json prints the object and creates nothing.\n" +
			"Exit codes: 0 ready, 1 failed, 2 wrong command line.",
		Example: "  longshorectl create virtualnode mynode --remote-cluster-id milan --resource-slice-name mypool --cpu 2\n" +
			"  longshorectl create virtualnode mynode --remote-cluster-id milan --kubeconfig-secret-name milan-kubeconfig --cpu 2 --memory 4Gi",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.spec.Name = args[0]
			if err := f.parse(cmd); err != nil {
				return err
			}
			return f.run(cmd.Context(), streams)
		},
	}
	f.AddTo(command, "consumer", createTimeout)
	set := command.Flags()
	f.peer.AddTo(set, "cluster ID of the provider")
	set.StringVar(&f.spec.Slice, "resource-slice-name", "", "ResourceSlice with the credentials and the capacity")
	set.StringVar(&f.spec.Secret, "kubeconfig-secret-name", "", "Secret with the kubeconfig of the provider, in the tenant namespace")
	f.quantities.AddTo(set, "offer", "the slice's when absent, or the reference's default of a Secret (2, 4Gi, 110)")
	set.StringSliceVar(&f.spec.StorageClasses, "storage-classes", nil, "storage classes of the provider, the first is the default; the slice's when absent")
	set.StringSliceVar(&f.spec.IngressClasses, "ingress-classes", nil, "ingress classes of the provider, the first is the default; the slice's when absent")
	set.StringSliceVar(&f.spec.LoadBalancerClasses, "load-balancer-classes", nil, "load balancer classes of the provider, the first is the default; the slice's when absent")
	set.StringToStringVar(&f.spec.Labels, "labels", nil, "labels of the Node, KEY=VALUE")
	set.StringToStringVar(&f.spec.NodeSelector, "node-selector", nil, "labels of the provider's nodes on which pods may run, KEY=VALUE")
	set.StringVar(&f.spec.RuntimeClassName, "runtime-class-name", "", "RuntimeClass of remote pods that name none")
	set.StringVar(&f.template, "vk-options-template", "", "VkOptionsTemplate of the virtual kubelet, NAME or NAMESPACE/NAME; Longshore's default when absent")
	set.BoolVar(&f.createNode, "create-node", true, "create a Node; without it, only other resources are reflected")
	set.BoolVar(&f.disableNetworkCheck, "disable-network-check", false, "do not make the Node's readiness depend on the network")
	f.format.AddTo(set)
	return command
}

// parse completes the spec.
func (f *createFlags) parse(cmd *cobra.Command) (err error) {
	if f.spec.Provider, err = f.peer.Required(); err != nil {
		return err
	}
	if err := admin.CheckNodeName(f.spec.Name); err != nil {
		return err
	}
	if (f.spec.Slice == "") == (f.spec.Secret == "") {
		return output.Usage(errNoCredentials)
	}
	if f.spec.Resources, err = f.quantities.Parse(); err != nil {
		return err
	}
	if f.template != "" {
		if f.spec.Template, err = parseTemplate(f.template, f.LongshoreNamespace); err != nil {
			return output.Usage(err)
		}
	}
	if cmd.Flags().Changed("create-node") {
		f.spec.CreateNode = &f.createNode
	}
	if cmd.Flags().Changed("disable-network-check") {
		f.spec.DisableNetworkCheck = &f.disableNetworkCheck
	}
	return nil
}

func (f *createFlags) run(ctx context.Context, streams admin.Streams) error {
	consumer, err := f.Open()
	if err != nil {
		return err
	}
	namespace, err := consumer.RequireTenantNamespace(ctx, f.spec.Provider)
	if err != nil {
		return err
	}
	slice, err := f.spec.readCredentials(ctx, consumer, namespace)
	if err != nil {
		return err
	}
	if f.format.Format != output.Text {
		return output.Print(streams.Out, f.format.Format, f.spec.fresh(namespace, slice), nil)
	}
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: f.spec.Name, Namespace: namespace}}
	err = consumer.Get(ctx, client.ObjectKeyFromObject(vn), vn)
	switch {
	case apierrors.IsNotFound(err):
		err = checkNode(ctx, consumer, f.spec.Name)
	case err == nil:
		err = f.spec.checkExisting(vn)
	default:
		err = fmt.Errorf("reading VirtualNode %s: %w", f.spec.Name, err)
	}
	if err != nil {
		return err
	}
	if err := admin.RunSteps(ctx, streams.Err, f.Timeout, []admin.Step{
		{Title: "VirtualNode " + f.spec.Name, Run: func(ctx context.Context, _ admin.Waiting) error {
			return consumer.Write(ctx, vn, func() error {
				if vn.ResourceVersion != "" {
					f.spec.change(vn)
					return nil
				}
				*vn = *f.spec.fresh(namespace, slice)
				return nil
			})
		}},
		{Title: "Node " + f.spec.Name, Run: func(ctx context.Context, waiting admin.Waiting) error {
			return WaitReady(ctx, consumer, namespace, f.spec.Name, waiting)
		}},
	}); err != nil {
		return err
	}
	if err := consumer.Get(ctx, client.ObjectKeyFromObject(vn), vn); err != nil {
		return fmt.Errorf("reading VirtualNode %s: %w", f.spec.Name, err)
	}
	return Print(streams.Out, f.format, []*offloadingv1beta1.VirtualNode{vn}, true, time.Now())
}

// fresh returns a new VirtualNode. Without a template of its own it says whether a Node is
// created and checked, as that of the reference does; a template decides for itself.
func (s *Spec) fresh(namespace string, slice *authv1beta1.ResourceSlice) *offloadingv1beta1.VirtualNode {
	vn := s.Object(namespace, slice)
	if s.Template == nil {
		vn.Spec.CreateNode = ptr.To(ptr.Deref(vn.Spec.CreateNode, true))
		vn.Spec.DisableNetworkCheck = ptr.To(ptr.Deref(vn.Spec.DisableNetworkCheck, false))
	}
	return vn
}

// readCredentials checks that the slice or the Secret can be used, and returns the slice.
func (s *Spec) readCredentials(ctx context.Context, c *admin.Cluster, namespace string) (*authv1beta1.ResourceSlice, error) {
	var slice *authv1beta1.ResourceSlice
	if s.Slice != "" {
		slice = &authv1beta1.ResourceSlice{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.Slice}, slice)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("ResourceSlice %s/%s does not exist: run longshorectl create resourceslice %[2]s --no-virtual-node first", namespace, s.Slice)
		}
		if err != nil {
			return nil, fmt.Errorf("reading ResourceSlice %s: %w", s.Slice, err)
		}
		for _, kind := range []authv1beta1.ResourceSliceConditionType{
			authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionTypeResources,
		} {
			if problem := undecided(slice, kind); problem != "" {
				return nil, fmt.Errorf("ResourceSlice %q has no grant: %s: wait until it is accepted (longshorectl get resourceslice)", s.Slice, problem)
			}
		}
	}
	secret := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.secretName()}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("Secret %s/%s with the kubeconfig of %s does not exist", namespace, s.secretName(), s.Provider) //nolint:staticcheck // A kind.
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", s.secretName(), err)
	case len(secret.Data[authv1beta1.KubeconfigSecretKey]) == 0:
		return nil, fmt.Errorf("Secret %s/%s has no key %q", namespace, s.secretName(), authv1beta1.KubeconfigSecretKey) //nolint:staticcheck // A kind.
	}
	return slice, nil
}

// undecided returns why a condition of a slice is not accepted, or "".
func undecided(slice *authv1beta1.ResourceSlice, kind authv1beta1.ResourceSliceConditionType) string {
	for _, c := range slice.Status.Conditions {
		if c.Type != kind {
			continue
		}
		if c.Status == authv1beta1.ResourceSliceConditionAccepted {
			return ""
		}
		return fmt.Sprintf("%s is %s: %s: %s", kind, c.Status, c.Reason, c.Message)
	}
	return fmt.Sprintf("the provider has not decided about %s", kind)
}
