package node

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// follow watches the objects that a selection yields and calls changed with each change;
// gone says that the object was deleted. The returned function reports whether the first
// list was seen.
func follow(ctx context.Context, group *sync.WaitGroup, c client.WithWatch, object client.Object, newList func() client.ObjectList,
	selection client.ListOptions, changed func(object client.Object, gone bool),
) cache.InformerSynced {
	handle := func(raw any, gone bool) {
		if tombstone, ok := raw.(cache.DeletedFinalStateUnknown); ok {
			raw = tombstone.Obj
		}
		if object, ok := raw.(client.Object); ok {
			changed(object, gone)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
				list, options := newList(), selection
				options.Raw = &raw
				return list, c.List(ctx, list, &options)
			},
			WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
				options := selection
				options.Raw = &raw
				return c.Watch(ctx, newList(), &options)
			},
		}, c),
		ObjectType: object,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(now any) { handle(now, false) },
			UpdateFunc: func(_, now any) { handle(now, false) },
			DeleteFunc: func(last any) { handle(last, true) },
		},
	})
	group.Go(func() { informer.RunWithContext(ctx) })
	return informer.HasSynced
}

// followForeignCluster keeps the ForeignCluster of the provider, and returns once it is
// known whether there is one, or false when the context ends first.
func (n *Node) followForeignCluster(ctx context.Context, group *sync.WaitGroup) bool {
	// By the specification: the label is set by a webhook that need not be there.
	provider := n.options.VirtualNode.Spec.ClusterID
	synced := follow(ctx, group, n.options.Local, &liqocorev1beta1.ForeignCluster{},
		func() client.ObjectList { return &liqocorev1beta1.ForeignClusterList{} }, client.ListOptions{},
		func(object client.Object, gone bool) {
			fc, ok := object.(*liqocorev1beta1.ForeignCluster)
			if !ok || fc.Spec.ClusterID != provider {
				return
			}
			if gone {
				fc = nil
			}
			n.mu.Lock()
			n.foreignCluster = fc
			n.mu.Unlock()
			n.wake()
		})
	return cache.WaitForCacheSync(ctx.Done(), synced)
}

// followNode keeps the Node as the server has it, so that what others took away is seen.
func (n *Node) followNode(ctx context.Context, group *sync.WaitGroup) {
	selection := client.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, n.name())}
	follow(ctx, group, n.options.Local, &corev1.Node{}, func() client.ObjectList { return &corev1.NodeList{} }, selection,
		func(object client.Object, gone bool) {
			node, _ := object.(*corev1.Node)
			if gone {
				node = nil
			}
			n.mu.Lock()
			n.server = node
			n.mu.Unlock()
			n.wake()
		})
}
