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

	"github.com/longshore-dev/longshore/host/kit/restore"
)

// watchNode caches the Node of the API server, so that changes by other clients are seen.
func (n *Node) watchNode(ctx context.Context, group *sync.WaitGroup) {
	selection := client.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, n.name())}
	seen := func(raw any) {
		if node, ok := raw.(*corev1.Node); ok {
			n.setServer(node)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: restore.Detect(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
				list, options := &corev1.NodeList{}, selection
				options.Raw = &raw
				return list, n.options.Local.List(ctx, list, &options)
			},
			WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
				options := selection
				options.Raw = &raw
				return n.options.Local.Watch(ctx, &corev1.NodeList{}, &options)
			},
		}, n.options.Local)),
		ObjectType: &corev1.Node{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: seen, UpdateFunc: func(_, current any) { seen(current) }, DeleteFunc: func(any) { n.setServer(nil) },
		},
	})
	group.Go(func() { informer.RunWithContext(ctx) })
}

func (n *Node) setServer(node *corev1.Node) {
	n.mu.Lock()
	n.server = node
	n.mu.Unlock()
	n.wake()
}
