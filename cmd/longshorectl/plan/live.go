package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	podresource "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	policyv1alpha1 "github.com/longshore-dev/longshore/host/apis/policy/v1alpha1"
	"github.com/longshore-dev/longshore/host/kit/podend"
	"github.com/longshore-dev/longshore/host/planner"
)

// pageSize bounds the answer to one request.
const pageSize = 500

// Live reads the facts of a cluster. The number of requests grows with virtual nodes and with
// the namespaces of the templates, not with templates.
type Live struct{ reader client.Client }

// connect reads the kubeconfig; no request is sent yet, except that for the API groups.
func connect(flags *cluster.Flags) (*Live, string, error) {
	config, namespace, err := flags.Config()
	if err != nil {
		return nil, "", err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, "", err
	}
	live, err := newLive(config, scheme)
	return live, namespace, err
}

func newLive(config *rest.Config, scheme *runtime.Scheme) (*Live, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Live{reader: reader}, nil
}

// ReadVirtualNodes reads the virtual nodes of a cluster, and their Nodes with what is requested there.
func ReadVirtualNodes(ctx context.Context, c *cluster.Cluster) (planner.Facts, error) {
	scheme, err := newScheme()
	if err != nil {
		return planner.Facts{}, err
	}
	live, err := newLive(c.Config(), scheme)
	if err != nil {
		return planner.Facts{}, err
	}
	facts := planner.Facts{VirtualNodes: []offloadingv1beta1.VirtualNode{}, Nodes: map[string]*corev1.Node{}, Requested: map[string]corev1.ResourceList{}}
	if err := errors.Join(live.readVirtualNodes(ctx, &facts), live.readNodes(ctx, &facts)); err != nil {
		return planner.Facts{}, err
	}
	return facts, live.readRequested(ctx, &facts, slices.Collect(maps.Keys(facts.Nodes)), nil)
}

// read adds the facts of the cluster, then the objects of the files, which take their place.
func (l *Live) read(ctx context.Context, f *facts, objects []runtime.Object) error {
	f.live = l.reader
	if err := l.readOffloading(ctx, f); err != nil {
		return err
	}
	nodes := slices.Collect(maps.Keys(f.Nodes)) // objects in the files take the place of some
	if err := f.addAll(objects); err != nil {
		return err
	}
	if err := l.readRequested(ctx, &f.Facts, nodes, f.workloads()); err != nil {
		return err
	}
	for _, namespace := range namespacesOf(f) {
		if err := errors.Join(l.readNamespace(ctx, f, namespace), l.readNetworkPolicies(ctx, f, namespace)); err != nil {
			return err
		}
	}
	return nil
}

func namespacesOf(f *facts) []string {
	var names []string
	for i := range f.templates {
		names = append(names, f.templates[i].Pod.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readOffloading reads what Longshore has in the cluster.
func (l *Live) readOffloading(ctx context.Context, f *facts) error {
	if err := l.readClusterID(ctx, f); err != nil {
		return err
	}
	f.NamespaceMaps = []offloadingv1beta1.NamespaceMap{}
	for _, read := range []func() error{
		func() error {
			return each(ctx, l, &offloadingv1beta1.NamespaceOffloadingList{}, func(list *offloadingv1beta1.NamespaceOffloadingList) {
				for i := range list.Items {
					f.addOffloading(&list.Items[i])
				}
			})
		},
		func() error {
			return each(ctx, l, &offloadingv1beta1.NamespaceMapList{}, func(list *offloadingv1beta1.NamespaceMapList) {
				f.NamespaceMaps = append(f.NamespaceMaps, list.Items...)
			}, client.MatchingLabels{liqocorev1beta1.ReplicationLabel: "true"})
		},
		func() error {
			return each(ctx, l, &policyv1alpha1.OffloadingPolicyList{}, func(list *policyv1alpha1.OffloadingPolicyList) {
				for i := range list.Items {
					f.policies[list.Items[i].Name] = &list.Items[i]
				}
			})
		},
		func() error { return l.readVirtualNodes(ctx, &f.Facts) },
		func() error { return l.readNodes(ctx, &f.Facts) },
		func() error {
			return each(ctx, l, &storagev1.StorageClassList{}, func(list *storagev1.StorageClassList) {
				for i := range list.Items {
					f.Inventory.AddStorageClass(&list.Items[i])
				}
			})
		},
	} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

func (l *Live) readVirtualNodes(ctx context.Context, f *planner.Facts) error {
	return each(ctx, l, &offloadingv1beta1.VirtualNodeList{}, func(list *offloadingv1beta1.VirtualNodeList) {
		f.VirtualNodes = append(f.VirtualNodes, list.Items...)
	})
}

func (l *Live) readNodes(ctx context.Context, f *planner.Facts) error {
	return each(ctx, l, &corev1.NodeList{}, func(list *corev1.NodeList) {
		for i := range list.Items {
			f.Nodes[list.Items[i].Name] = &list.Items[i]
		}
	}, client.MatchingLabels{offloadingv1beta1.NodeTypeLabel: offloadingv1beta1.NodeTypeVirtual})
}

// readClusterID reads the ID of the consumer, unless it is given.
func (l *Live) readClusterID(ctx context.Context, f *facts) error {
	if f.HomeClusterID != "" {
		return nil
	}
	return each(ctx, l, &corev1.ConfigMapList{}, func(list *corev1.ConfigMapList) {
		if len(list.Items) == 1 {
			f.HomeClusterID = list.Items[0].Data[liqocorev1beta1.ClusterIDConfigMapKey]
		}
	}, client.MatchingLabels{"app.kubernetes.io/name": liqocorev1beta1.ClusterIDConfigMapLabelValue})
}

// readRequested adds up the requests of the pods on Nodes, and of those the ones that planned workloads
// have already.
func (l *Live) readRequested(ctx context.Context, f *planner.Facts, nodes []string, planned map[planner.Workload]bool) error {
	f.Replaced, f.Held = map[planner.Workload]map[string]corev1.ResourceList{}, map[string][]string{}
	for _, node := range nodes {
		sum := corev1.ResourceList{}
		err := each(ctx, l, &corev1.PodList{}, func(list *corev1.PodList) {
			for i := range list.Items {
				pod := &list.Items[i]
				if podend.IsTerminal(pod.Status.Phase) {
					continue
				}
				addRequests(sum, pod)
				if planner.HoldsCapacity(pod) {
					f.Held[node] = append(f.Held[node], pod.Namespace+"/"+pod.Name)
				}
				for _, workload := range planner.WorkloadsOf(pod) {
					if planned[workload] {
						addRequests(replacedOn(f, workload, node), pod)
					}
				}
			}
		}, client.MatchingFields{"spec.nodeName": node})
		if err != nil {
			return err
		}
		f.Requested[node] = sum
	}
	return nil
}

// addRequests adds the requests of a pod, with its number as resource "pods".
func addRequests(sum corev1.ResourceList, pod *corev1.Pod) {
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	requests[corev1.ResourcePods] = resource.MustParse("1")
	for name, quantity := range requests {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
}

// replacedOn returns the requests of the pods that a workload has on a Node, to add to.
func replacedOn(f *planner.Facts, workload planner.Workload, node string) corev1.ResourceList {
	if f.Replaced[workload] == nil {
		f.Replaced[workload] = map[string]corev1.ResourceList{}
	}
	if f.Replaced[workload][node] == nil {
		f.Replaced[workload][node] = corev1.ResourceList{}
	}
	return f.Replaced[workload][node]
}

// readNamespace reads a namespace with templates, and the metadata of the objects in it.
func (l *Live) readNamespace(ctx context.Context, f *facts, name string) error {
	if f.Namespaces[name] == nil {
		namespace := &corev1.Namespace{}
		err := l.reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading namespace %q: %w", name, err)
		}
		if err == nil {
			f.Namespaces[name] = namespace
		}
	}
	in := client.InNamespace(name)
	for _, kind := range []string{"ConfigMap", "Secret"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		err := each(ctx, l, list, func(list *metav1.PartialObjectMetadataList) {
			for i := range list.Items {
				f.Inventory.AddMissing(kind, list.Items[i].ObjectMeta)
			}
		}, in)
		if err != nil {
			return err
		}
	}
	err := each(ctx, l, &corev1.PersistentVolumeClaimList{}, func(list *corev1.PersistentVolumeClaimList) {
		for i := range list.Items {
			f.Inventory.AddClaim(&list.Items[i])
		}
	}, in)
	if err != nil {
		return err
	}
	return each(ctx, l, &corev1.ServiceList{}, func(list *corev1.ServiceList) {
		for i := range list.Items {
			f.Inventory.AddService(&list.Items[i])
		}
	}, in)
}

// each lists objects in pages. Each page has a list of its own, since use may keep items: decoding
// into a list that has items overwrites them.
func each[L client.ObjectList](ctx context.Context, l *Live, empty L, use func(L), options ...client.ListOption) error {
	next := ""
	for {
		list, ok := empty.DeepCopyObject().(L)
		if !ok {
			return fmt.Errorf("reading %T from the cluster: its copy has another type", empty)
		}
		page := append(slices.Clone(options), client.Limit(pageSize), client.Continue(next))
		if err := l.reader.List(ctx, list, page...); err != nil {
			return fmt.Errorf("reading %T from the cluster: %w", list, err)
		}
		use(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}
