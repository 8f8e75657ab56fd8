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
	"github.com/longshore-dev/longshore/host/kit/restore"
)

// watchObjects watches the selected objects and calls changed with each change and deletion.
// The returned function reports whether changed was called for the first list.
func watchObjects(ctx context.Context, group *sync.WaitGroup, c client.WithWatch, object client.Object, newList func() client.ObjectList,
	selection client.ListOptions, changed func(object client.Object, deleted bool),
) cache.InformerSynced {
	handle := func(raw any, deleted bool) {
		if tombstone, ok := raw.(cache.DeletedFinalStateUnknown); ok {
			raw = tombstone.Obj
		}
		if object, ok := raw.(client.Object); ok {
			changed(object, deleted)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: restore.Detect(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
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
		}, c)),
		ObjectType: object,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(current any) { handle(current, false) },
			UpdateFunc: func(_, current any) { handle(current, false) },
			DeleteFunc: func(last any) { handle(last, true) },
		},
	})
	group.Go(func() { informer.RunWithContext(ctx) })
	return informer.HasSynced
}

// watchForeignCluster caches the provider's ForeignCluster. It returns after the first list,
// or false when the context ends first.
func (n *Node) watchForeignCluster(ctx context.Context, group *sync.WaitGroup) bool {
	// The spec is compared, because the label is set by a webhook that may be missing.
	provider := n.options.VirtualNode.Spec.ClusterID
	synced := watchObjects(ctx, group, n.options.Local, &liqocorev1beta1.ForeignCluster{},
		func() client.ObjectList { return &liqocorev1beta1.ForeignClusterList{} }, client.ListOptions{},
		func(object client.Object, deleted bool) {
			fc, ok := object.(*liqocorev1beta1.ForeignCluster)
			if !ok || fc.Spec.ClusterID != provider {
				return
			}
			if deleted {
				fc = nil
			}
			n.mu.Lock()
			n.foreignCluster = fc
			n.mu.Unlock()
			n.wake()
		})
	return cache.WaitForCacheSync(ctx.Done(), synced)
}

// watchNode caches the Node of the API server, so that changes by other clients are seen.
func (n *Node) watchNode(ctx context.Context, group *sync.WaitGroup) {
	selection := client.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, n.name())}
	watchObjects(ctx, group, n.options.Local, &corev1.Node{}, func() client.ObjectList { return &corev1.NodeList{} }, selection,
		func(object client.Object, deleted bool) {
			node, _ := object.(*corev1.Node)
			if deleted {
				node = nil
			}
			n.mu.Lock()
			n.server = node
			n.mu.Unlock()
			n.wake()
		})
}
