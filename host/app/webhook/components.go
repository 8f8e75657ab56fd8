package webhook

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/policysource"
)

// components knows who runs policies: this process, and a virtual kubelet for each
// VirtualNode.
type components struct{ reader client.Reader }

// list names them as they name themselves in policy status.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch
func (c components) list(ctx context.Context) (map[string]bool, error) {
	nodes := &offloadingv1beta1.VirtualNodeList{}
	if err := c.reader.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	names := map[string]bool{Component: true}
	for i := range nodes.Items {
		names[policysource.VirtualKubelet+nodes.Items[i].Name] = true
	}
	return names, nil
}

// departures tells when a VirtualNode has gone, and so who ran policies for it.
type departures struct {
	cache cache.Cache
	tell  func()
}

// Start implements manager.Runnable.
func (d departures) Start(ctx context.Context) error {
	informer, err := d.cache.GetInformer(ctx, &offloadingv1beta1.VirtualNode{})
	if err != nil {
		return fmt.Errorf("watching VirtualNodes: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { d.tell() }})
	if err != nil {
		return fmt.Errorf("watching VirtualNodes: %w", err)
	}
	<-ctx.Done()
	if err := informer.RemoveEventHandler(registration); err != nil {
		return fmt.Errorf("ending the watch of VirtualNodes: %w", err)
	}
	return nil
}
