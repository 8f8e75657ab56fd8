package complete

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	authv1beta1 "github.com/longshore-dev/longshore/host/apis/authentication/v1beta1"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
)

const (
	// timeout of all requests of one completion: a user waits for it with each key.
	timeout = 2 * time.Second
	// limit of the objects that are read.
	limit = 500
)

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

func offloading(resource string) schema.GroupVersionResource {
	return offloadingv1beta1.GroupVersion.WithResource(resource)
}

var (
	storageClasses = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
	runtimeClasses = schema.GroupVersionResource{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}
	resourceSlices = authv1beta1.GroupVersion.WithResource("resourceslices")
	foreignCluster = liqocorev1beta1.GroupVersion.WithResource("foreignclusters")
	policies       = policyv1alpha1.GroupVersion.WithResource("offloadingpolicies")
)

// flagOf returns the value of a flag, or "" if the command has no such flag.
func flagOf(cmd *cobra.Command, name string) string {
	if flag := cmd.Flags().Lookup(name); flag != nil {
		return flag.Value.String()
	}
	return ""
}

// side names the flags that select a cluster.
type side struct{ kubeconfig, context, cluster, user string }

var (
	local     = side{"kubeconfig", "context", "cluster", "user"}
	remote    = side{"remote-kubeconfig", "remote-context", "remote-cluster", "remote-user"}
	consumer  = side{kubeconfig: "consumer", context: "consumer-context"}
	provider  = side{kubeconfig: "provider", context: "provider-context"}
	fallbacks = map[side]side{remote: local, provider: consumer}
)

// kubeconfigOf returns the file of a cluster: the remote cluster may stand in the same one.
func (s side) kubeconfigOf(cmd *cobra.Command) string {
	file := flagOf(cmd, s.kubeconfig)
	if other, ok := fallbacks[s]; ok && file == "" {
		file = flagOf(cmd, other.kubeconfig)
	}
	return file
}

// config returns the configuration of the cluster and the namespace to use, or nil.
func (s side) config(cmd *cobra.Command) (*rest.Config, string) {
	if s == remote && flagOf(cmd, s.kubeconfig) == "" && flagOf(cmd, s.context) == "" && flagOf(cmd, s.cluster) == "" {
		return nil, "" // It is not known yet which cluster it is.
	}
	selected := cluster.Flags{
		Kubeconfig: s.kubeconfigOf(cmd), Context: flagOf(cmd, s.context), Cluster: flagOf(cmd, s.cluster), User: flagOf(cmd, s.user), Namespace: flagOf(cmd, "namespace"),
	}
	config, namespace, err := selected.Config()
	if err != nil {
		return nil, ""
	}
	config = rest.CopyConfig(config)
	config.Timeout, config.WarningHandler = timeout, rest.NoWarnings{}
	if config.ExecProvider != nil {
		// A plugin must not ask for a password while the shell completes.
		config.ExecProvider.StdinUnavailable = true
	}
	return config, namespace
}

// contexts lists the contexts of the kubeconfig.
func (s side) contexts(cmd *cobra.Command, _ []string) []string {
	return slices.Collect(maps.Keys(s.load(cmd).Contexts))
}

// clusters lists the clusters of the kubeconfig.
func (s side) clusters(cmd *cobra.Command, _ []string) []string {
	return slices.Collect(maps.Keys(s.load(cmd).Clusters))
}

// users lists the users of the kubeconfig.
func (s side) users(cmd *cobra.Command, _ []string) []string {
	return slices.Collect(maps.Keys(s.load(cmd).AuthInfos))
}

// load reads the kubeconfig; an unreadable one is empty.
func (s side) load(cmd *cobra.Command) *clientcmdapi.Config {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfigOf(cmd)
	raw, err := rules.Load()
	if err != nil {
		return clientcmdapi.NewConfig()
	}
	return raw
}

// names lists objects of all namespaces, or those without one. Only metadata is read.
func (s side) names(resource schema.GroupVersionResource) source {
	return func(cmd *cobra.Command, _ []string) []string {
		return s.list(cmd, resource, "", nameOf)
	}
}

// namesHere lists objects of the namespace that the command line or the context selects.
func (s side) namesHere(resource schema.GroupVersionResource) source {
	return func(cmd *cobra.Command, _ []string) []string {
		_, namespace := s.config(cmd)
		return s.list(cmd, resource, namespace, nameOf)
	}
}

func nameOf(object *metav1.PartialObjectMetadata) []string { return []string{object.Name} }

// list returns the values of each object, from its metadata.
func (s side) list(cmd *cobra.Command, resource schema.GroupVersionResource, namespace string, values func(*metav1.PartialObjectMetadata) []string) []string {
	config, _ := s.config(cmd)
	if config == nil {
		return nil
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(contextOf(cmd), timeout)
	defer cancel()
	list, err := objects.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: limit})
	if err != nil {
		return nil
	}
	var found []string
	for i := range list.Items {
		found = append(found, values(&list.Items[i])...)
	}
	return found
}

// read returns the values of each object of a kind.
func read[T any](s side, cmd *cobra.Command, resource schema.GroupVersionResource, values func(*T) []string) []string {
	config, _ := s.config(cmd)
	if config == nil {
		return nil
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(contextOf(cmd), timeout)
	defer cancel()
	list, err := objects.Resource(resource).List(ctx, metav1.ListOptions{Limit: limit})
	if err != nil {
		return nil
	}
	var found []string
	_ = list.EachListItem(func(object runtime.Object) error {
		typed := new(T)
		if one, ok := object.(*unstructured.Unstructured); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, typed) == nil {
			found = append(found, values(typed)...)
		}
		return nil
	})
	return found
}

func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// peers lists the cluster IDs of the peers.
func peers(cmd *cobra.Command, _ []string) []string {
	return read(local, cmd, foreignCluster, func(fc *liqocorev1beta1.ForeignCluster) []string { return []string{string(fc.Spec.ClusterID)} })
}

// peersOrWord lists the peers, also behind the word peer, which the reference writes before them.
func peersOrWord(cmd *cobra.Command, args []string) []string {
	if len(args) > 1 || len(args) == 1 && args[0] != "peer" {
		return nil
	}
	return peers(cmd, args)
}

// resources lists the resources of the Nodes that have no flag of their own, NAME=.
func resources(cmd *cobra.Command, _ []string) []string {
	return read(local, cmd, core("nodes"), func(node *corev1.Node) []string {
		var names []string
		for name := range node.Status.Allocatable {
			if !slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods}, name) {
				names = append(names, string(name)+"=")
			}
		}
		return names
	})
}

// tenants lists the consumers.
func tenants(cmd *cobra.Command, _ []string) []string {
	return local.list(cmd, authv1beta1.GroupVersion.WithResource("tenants"), "", nameOf)
}

// ofPeer reports whether an object belongs to the peer that the command line names; without one,
// all do.
func ofPeer(cmd *cobra.Command, labels map[string]string) bool {
	id := flagOf(cmd, "remote-cluster-id")
	return id == "" || labels[liqocorev1beta1.RemoteClusterIDLabel] == id
}

// slicesOf lists ResourceSlices by their metadata.
func slicesOf(wanted func(client.Object) bool) source {
	return func(cmd *cobra.Command, _ []string) []string {
		return local.list(cmd, resourceSlices, "", func(object *metav1.PartialObjectMetadata) []string {
			if !ofPeer(cmd, object.Labels) || !wanted(object) {
				return nil
			}
			return []string{object.Name}
		})
	}
}

var (
	allSlices    = slicesOf(func(client.Object) bool { return true })
	ownSlices    = slicesOf(func(slice client.Object) bool { return !resourceslice.IsCopy(slice) })
	copiedSlices = slicesOf(resourceslice.IsCopy)
)

// granted lists what the status of the slices offers.
func granted(values func(*authv1beta1.ResourceSlice) []string) source {
	return func(cmd *cobra.Command, _ []string) []string {
		return read(local, cmd, resourceSlices, func(slice *authv1beta1.ResourceSlice) []string {
			if !ofPeer(cmd, slice.Labels) || resourceslice.IsCopy(slice) {
				return nil
			}
			return values(slice)
		})
	}
}

func classesOfSlices(cmd *cobra.Command, args []string) []string {
	return append(granted(func(slice *authv1beta1.ResourceSlice) []string { return []string{string(slice.Spec.Class)} })(cmd, args), "default")
}

func storageOfProvider(slice *authv1beta1.ResourceSlice) (names []string) {
	for _, class := range slice.Status.StorageClasses {
		names = append(names, class.StorageClassName)
	}
	return names
}

func ingressOfProvider(slice *authv1beta1.ResourceSlice) (names []string) {
	for _, class := range slice.Status.IngressClasses {
		names = append(names, class.IngressClassName)
	}
	return names
}

func loadBalancersOfProvider(slice *authv1beta1.ResourceSlice) (names []string) {
	for _, class := range slice.Status.LoadBalancerClasses {
		names = append(names, class.LoadBalancerClassName)
	}
	return names
}

func nodeLabelsOfProvider(slice *authv1beta1.ResourceSlice) []string {
	return pairs(slice.Status.NodeLabels)
}

func pairs(labels map[string]string) []string {
	words := make([]string, 0, len(labels))
	for key, value := range labels {
		words = append(words, key+"="+value)
	}
	return words
}

// virtualNodes lists the virtual nodes of the peer that the command line names.
func virtualNodes(cmd *cobra.Command, _ []string) []string {
	id := flagOf(cmd, "remote-cluster-id")
	return read(local, cmd, offloading("virtualnodes"), func(vn *offloadingv1beta1.VirtualNode) []string {
		if id != "" && string(vn.Spec.ClusterID) != id {
			return nil
		}
		return []string{vn.Name}
	})
}

// labelsOf lists the labels of objects, KEY=VALUE.
func labelsOf(resource schema.GroupVersionResource, wanted func(labels map[string]string) bool) source {
	return func(cmd *cobra.Command, _ []string) []string {
		return local.list(cmd, resource, "", func(object *metav1.PartialObjectMetadata) []string {
			if !wanted(object.Labels) {
				return nil
			}
			return pairs(object.Labels)
		})
	}
}

func isVirtualNode(labels map[string]string) bool {
	return labels[offloadingv1beta1.NodeTypeLabel] == offloadingv1beta1.NodeTypeVirtual
}

// inTenantNamespace lists objects of the tenant namespace of the peer that the command line names,
// or of all tenant namespaces.
func inTenantNamespace(resource schema.GroupVersionResource) source {
	return func(cmd *cobra.Command, _ []string) []string {
		kept := local.list(cmd, core("namespaces"), "", func(object *metav1.PartialObjectMetadata) []string {
			if _, ok := object.Labels[liqocorev1beta1.TenantNamespaceLabel]; !ok || !ofPeer(cmd, object.Labels) {
				return nil
			}
			return []string{object.Name}
		})
		return local.list(cmd, resource, "", func(object *metav1.PartialObjectMetadata) []string {
			if !slices.Contains(kept, object.Namespace) {
				return nil
			}
			return []string{object.Name}
		})
	}
}

func templates(cmd *cobra.Command, _ []string) []string {
	return local.list(cmd, offloading("vkoptionstemplates"), "", func(object *metav1.PartialObjectMetadata) []string {
		return []string{object.Namespace + "/" + object.Name}
	})
}

// offloaded lists the namespaces that have a NamespaceOffloading.
func offloaded(cmd *cobra.Command, _ []string) []string {
	return local.list(cmd, offloading("namespaceoffloadings"), "", func(object *metav1.PartialObjectMetadata) []string {
		return []string{object.Namespace}
	})
}

// explainable are the kinds of longshorectl explain.
var explainable = map[string]schema.GroupVersionResource{
	"pod": core("pods"), "shadowpod": offloading("shadowpods"), "configmap": core("configmaps"), "secret": core("secrets"), "service": core("services"),
}

// objects lists KIND/ and, behind a kind, KIND/NAME.
func objects(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	kind, _, isNamed := strings.Cut(typed, "/")
	switch {
	case len(args) > 1:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1:
		return oneOf(local.namesHere(explainable[args[0]])).flag(cmd, nil, typed)
	case !isNamed:
		var kinds []string
		for name := range explainable {
			kinds = append(kinds, name+"/")
		}
		return matching(kinds, "", typed, nil), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	default:
		return matching(local.namesHere(explainable[kind])(cmd, nil), kind+"/", typed, nil), cobra.ShellCompDirectiveNoFileComp
	}
}
