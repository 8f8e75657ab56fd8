package plan

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/planner"
	"github.com/longshore-dev/longshore/host/policysource/configmap"
)

// defaultNamespace is the namespace of objects that name none.
const defaultNamespace = "default"

// facts are what files and the cluster say, before assumptions.
type facts struct {
	planner.Facts

	policies   map[string]*policyv1alpha1.OffloadingPolicy
	configMaps map[client.ObjectKey]*corev1.ConfigMap
	templates  []planner.Template
	namespace  string
	warnings   []string
	// live reads ConfigMaps with modules that no file has; nil offline.
	live client.Reader
}

func newFacts(namespace string, isLive bool) *facts {
	if namespace == "" {
		namespace = defaultNamespace
	}
	return &facts{
		Facts: planner.Facts{
			Namespaces: map[string]*corev1.Namespace{}, Offloadings: map[string]*offloadingv1beta1.NamespaceOffloading{},
			Nodes: map[string]*corev1.Node{}, Requested: map[string]corev1.ResourceList{}, Inventory: planner.NewInventory(isLive),
		},
		policies: map[string]*policyv1alpha1.OffloadingPolicy{}, configMaps: map[client.ObjectKey]*corev1.ConfigMap{}, namespace: namespace,
	}
}

// add adds an object of a file. Objects of the files take the place of those in the cluster.
func (f *facts) add(object runtime.Object) error {
	if meta, ok := object.(client.Object); ok && meta.GetNamespace() == "" {
		meta.SetNamespace(f.namespace)
	}
	switch o := object.(type) {
	case *corev1.Namespace:
		o.Namespace = ""
		f.Namespaces[o.Name] = o
	case *offloadingv1beta1.NamespaceOffloading:
		f.addOffloading(o)
	case *offloadingv1beta1.VirtualNode:
		f.addVirtualNode(o)
	case *policyv1alpha1.OffloadingPolicy:
		o.Namespace = ""
		f.policies[o.Name] = o
	case *corev1.ConfigMap:
		f.configMaps[client.ObjectKeyFromObject(o)] = o
		f.Inventory.Add("ConfigMap", o.ObjectMeta)
		return f.addPolicyOf(o)
	case *corev1.Secret:
		f.Inventory.Add("Secret", o.ObjectMeta)
	case *corev1.PersistentVolumeClaim:
		f.Inventory.AddClaim(o)
	case *storagev1.StorageClass:
		f.Inventory.AddStorageClass(o)
	case *corev1.Service:
		f.Inventory.AddService(o)
	case *networkingv1.NetworkPolicy:
		f.Inventory.AddNetworkPolicy(o)
	default:
		if template, ok := planner.TemplateOf(object, f.namespace); ok {
			f.templates = append(f.templates, template)
		}
	}
	return nil
}

func (f *facts) addAll(objects []runtime.Object) error {
	for _, object := range objects {
		if err := f.add(object); err != nil {
			return err
		}
	}
	return nil
}

// addOffloading adds the NamespaceOffloading of a namespace, with the API server's defaults.
func (f *facts) addOffloading(o *offloadingv1beta1.NamespaceOffloading) {
	if o.Name == "" {
		o.Name = offloadingv1beta1.NamespaceOffloadingName
	}
	if o.Spec.PodOffloadingStrategy == "" {
		o.Spec.PodOffloadingStrategy = offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType
	}
	if o.Spec.NamespaceMappingStrategy == "" {
		o.Spec.NamespaceMappingStrategy = offloadingv1beta1.DefaultNameMappingStrategyType
	}
	f.Offloadings[o.Namespace] = o
}

func (f *facts) addVirtualNode(vn *offloadingv1beta1.VirtualNode) {
	for i := range f.VirtualNodes {
		if f.VirtualNodes[i].Name == vn.Name {
			f.VirtualNodes[i] = *vn
			delete(f.Nodes, vn.Name)
			return
		}
	}
	f.VirtualNodes = append(f.VirtualNodes, *vn)
}

// addPolicyOf adds the OffloadingPolicy that the manager makes of a labeled ConfigMap.
func (f *facts) addPolicyOf(source *corev1.ConfigMap) error {
	if source.Labels[policyv1alpha1.PolicyLabel] != "true" {
		return nil
	}
	spec, problem := configmap.Spec(source)
	if problem != nil {
		return fmt.Errorf("reading the policy of ConfigMap %s/%s: %w", source.Namespace, source.Name, problem.Err)
	}
	policy := &policyv1alpha1.OffloadingPolicy{Spec: *spec}
	policy.Name = source.Name
	f.policies[policy.Name] = policy
	return nil
}

// workloads returns the objects whose pods are planned.
func (f *facts) workloads() map[planner.Workload]bool {
	planned := map[planner.Workload]bool{}
	for i := range f.templates {
		t := &f.templates[i]
		planned[planner.Workload{Kind: t.Kind, Namespace: t.Pod.Namespace, Name: t.Name}] = true
	}
	return planned
}

// Get implements client.Reader for the modules of policies and the labels of namespaces.
func (f *facts) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	switch target := object.(type) {
	case *corev1.ConfigMap:
		if found := f.configMaps[key]; found != nil {
			*target = *found
			return nil
		}
	case *corev1.Namespace:
		if found := f.Namespaces[key.Name]; found != nil {
			*target = *found
			return nil
		}
		if f.live == nil {
			target.Name = key.Name // a namespace that is not in the files has no labels
			return nil
		}
	}
	if f.live != nil {
		return f.live.Get(ctx, key, object, options...) //nolint:wrapcheck // The caller wraps it.
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// List implements client.Reader; modules and namespaces are not listed.
func (f *facts) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return apierrors.NewMethodNotSupported(schema.GroupResource{}, "list")
}

// The names of what is assumed.
const (
	assumedNode     = "virtual-node"
	assumedProvider = "provider"
	assumedConsumer = "consumer"
)

// assume fills in what files and the cluster do not say, and records it.
func (f *facts) assume(isLive bool) {
	note := func(format string, arguments ...any) {
		f.Assumed = append(f.Assumed, fmt.Sprintf(format, arguments...))
	}
	if f.HomeClusterID == "" {
		f.HomeClusterID = assumedConsumer
		note("the cluster ID %q (--cluster-id)", assumedConsumer)
	}
	if isLive {
		return
	}
	if len(f.Offloadings) == 0 {
		f.DefaultOffloading = &offloadingv1beta1.NamespaceOffloading{Spec: offloadingv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: offloadingv1beta1.DefaultNameMappingStrategyType,
			PodOffloadingStrategy:    offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType,
		}}
		f.DefaultOffloading.Name = offloadingv1beta1.NamespaceOffloadingName
		note("all namespaces are offloaded to all providers, strategy LocalAndRemote (--namespace-offloading)")
	}
	if len(f.VirtualNodes) == 0 {
		vn := offloadingv1beta1.VirtualNode{Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: assumedProvider}}
		vn.Name = assumedNode
		f.VirtualNodes, f.IgnoreResources = []offloadingv1beta1.VirtualNode{vn}, true
		note("one virtual node %q with all resources (--virtual-node)", assumedNode)
	}
}
