package access

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/longshore-dev/longshore/host/kit/restore"
)

// NodePods watches the metadata of the pods on virtual nodes, in all namespaces. There is one
// watch per virtual node, because a field selector selects one node.
type NodePods struct {
	client metadata.Interface

	mu sync.Mutex

	ctx     context.Context
	changed func(namespace string)
	synced  func()
	watches map[string]*nodeWatch
}

type nodeWatch struct {
	informer cache.SharedIndexInformer
	cancel   context.CancelFunc
}

// NewNodePods returns a NodePods. It has no watches before Start.
func NewNodePods(config *rest.Config) (*NodePods, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the metadata client: %w", err)
	}
	return &NodePods{client: client, watches: map[string]*nodeWatch{}}, nil
}

// Start permits watches until the context ends. NodePods then calls changed with the namespace
// of each pod that is created, deleted or begins to terminate, and synced after the first list
// of a node.
func (p *NodePods) Start(ctx context.Context, changed func(namespace string), synced func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.changed, p.synced = ctx, changed, synced
}

// Follow starts watches for the given nodes and stops all others.
func (p *NodePods) Follow(nodes map[string]bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, watch := range p.watches {
		if !nodes[name] {
			watch.cancel()
			delete(p.watches, name)
		}
	}
	for name := range nodes {
		if p.watches[name] != nil {
			continue
		}
		watch, err := p.watch(name)
		if err != nil {
			return err
		}
		p.watches[name] = watch
	}
	return nil
}

// In returns the pods of a node in a namespace, and false before the first list of the node.
func (p *NodePods) In(node, namespace string) ([]*metav1.PartialObjectMetadata, bool) {
	p.mu.Lock()
	watch := p.watches[node]
	p.mu.Unlock()
	if watch == nil || !watch.informer.HasSynced() {
		return nil, false
	}
	objects, err := watch.informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil, false
	}
	pods := make([]*metav1.PartialObjectMetadata, 0, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*metav1.PartialObjectMetadata); ok {
			pods = append(pods, pod)
		}
	}
	return pods, true
}

func (p *NodePods) watch(node string) (*nodeWatch, error) {
	pods := p.client.Resource(corev1.SchemeGroupVersion.WithResource("pods"))
	selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
	informer := restore.NewInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return pods.Watch(ctx, options)
		},
	}, p.client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	err := informer.SetTransform(trim)
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: p.notify,
			UpdateFunc: func(before, after any) {
				if isTerminating(before) != isTerminating(after) {
					p.notify(after)
				}
			},
			DeleteFunc: p.notify,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("watching the pods of Node %q: %w", node, err)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	synced := p.synced
	go informer.RunWithContext(ctx)
	go func() {
		select {
		case <-ctx.Done():
		case <-informer.HasSyncedChecker().Done():
			synced()
		}
	}()
	return &nodeWatch{informer: informer, cancel: cancel}, nil
}

func (p *NodePods) notify(object any) {
	if key, err := cache.DeletionHandlingObjectToName(object); err == nil {
		p.changed(key.Namespace)
	}
}

// trim removes all metadata of a pod but its identity and deletion timestamp.
func trim(object any) (any, error) {
	if pod, ok := object.(*metav1.PartialObjectMetadata); ok {
		pod.ObjectMeta = metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, DeletionTimestamp: pod.DeletionTimestamp,
		}
	}
	return object, nil
}

func isTerminating(object any) bool {
	pod, ok := object.(*metav1.PartialObjectMetadata)
	return ok && pod.DeletionTimestamp != nil
}
