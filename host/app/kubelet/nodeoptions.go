package kubelet

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/virtualkubelet"
	"github.com/longshore-dev/longshore/host/kit/vkflag"
)

// AddNodeFlags adds the flags in which the virtual nodes of a shared process may differ: those of
// vkflag.IsOfNode.
func AddNodeFlags(f *pflag.FlagSet, o *Options) {
	f.StringVar(&o.NodeName, "nodename", o.NodeName, "name of the virtual node")
	f.StringVar(&o.ForeignKubeconfigSecretName, "foreign-kubeconfig-secret-name", o.ForeignKubeconfigSecretName, "Secret in the tenant namespace with the provider's kubeconfig")
	f.BoolVar(&o.CreateNode, "create-node", o.CreateNode, "create the Node")
	f.BoolVar(&o.NodeCheckNetwork, "node-check-network", o.NodeCheckNetwork, "let the network's state decide about readiness")
	f.StringToStringVar(&o.NodeExtraAnnotations, "node-extra-annotations", nil, "further annotations of the Node")
	f.StringToStringVar(&o.NodeExtraLabels, "node-extra-labels", nil, "further labels of the Node")
	f.BoolVar(&o.EnableStorage, "enable-storage", o.EnableStorage, "reflect volume claims")
	f.StringVar(&o.RemoteRealStorageClassName, "remote-real-storage-class-name", o.RemoteRealStorageClassName, "storage class on the provider")
	f.BoolVar(&o.EnableIngress, "enable-ingress", o.EnableIngress, "set the ingress class of reflected Ingresses")
	f.StringVar(&o.RemoteRealIngressClassName, "remote-real-ingress-class-name", o.RemoteRealIngressClassName, "ingress class on the provider")
	f.BoolVar(&o.EnableLoadBalancer, "enable-load-balancer", o.EnableLoadBalancer, "set the load balancer class of reflected Services")
	f.StringVar(&o.RemoteRealLoadBalancerClassName, "remote-real-load-balancer-class-name", o.RemoteRealLoadBalancerClassName, "load balancer class on the provider")
}

// nodeOptions are the options of one virtual node of a shared process, with the arguments that the
// other virtual nodes need not have.
type nodeOptions struct {
	Options

	arguments []string
}

// ofNode returns the options of one virtual node of a shared process: those of the process, and the
// flags of the node in the arguments of the VirtualNode's template.
func (o *Options) ofNode(vn *offloadingv1beta1.VirtualNode) (nodeOptions, error) {
	options, defaults := nodeOptions{Options: *o}, DefaultOptions()
	options.NodeName, options.CreateNode, options.NodeCheckNetwork = vn.Name, defaults.CreateNode, defaults.NodeCheckNetwork
	flags := pflag.NewFlagSet(vn.Name, pflag.ContinueOnError)
	AddNodeFlags(flags, &options.Options)
	for _, argument := range virtualkubelet.Arguments(vn) {
		name, value, hasValue := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if !vkflag.IsOfNode(name) {
			continue
		}
		options.arguments = append(options.arguments, argument)
		if !hasValue && vkflag.IsBoolean(name) {
			value = "true"
		}
		if err := flags.Set(name, value); err != nil {
			return nodeOptions{}, fmt.Errorf("argument %q of spec.template: %w", argument, err)
		}
	}
	switch {
	case options.NodeName != vn.Name:
		return nodeOptions{}, fmt.Errorf("argument --nodename=%s of spec.template is not the name of the VirtualNode", options.NodeName)
	case options.ForeignKubeconfigSecretName == "":
		return nodeOptions{}, fmt.Errorf("argument --foreign-kubeconfig-secret-name of spec.template is missing: set spec.kubeconfigSecretRef of the VirtualNode")
	case string(vn.Spec.ClusterID) != o.ForeignClusterID:
		return nodeOptions{}, fmt.Errorf("VirtualNode %s is of cluster %q and --foreign-cluster-id is %q", vn.Name, vn.Spec.ClusterID, o.ForeignClusterID)
	}
	return options, nil
}
