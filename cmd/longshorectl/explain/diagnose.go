package explain

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/planner"
)

// diagnose returns the first thing that is wrong with a pod; nil if it runs. Without a provider,
// the pod's own status has what the provider reports. Of what the user may not read, nothing is
// wrong.
func diagnose(ctx context.Context, here *cluster.Cluster, name string, there *cluster.Cluster, remoteNamespace string) (*planner.Diagnosis, error) {
	o := planner.Observed{Pod: &corev1.Pod{}}
	if err := here.Get(ctx, core("pods"), here.Namespace, name, o.Pod); err != nil {
		return nil, err
	}
	var isKnown bool
	o.Offloading, isKnown = find[offloadingv1beta1.NamespaceOffloading](ctx, here, offloading("namespaceoffloadings"), here.Namespace, offloadingv1beta1.NamespaceOffloadingName)
	if !isKnown {
		o.Offloading = &offloadingv1beta1.NamespaceOffloading{}
	}
	if o.Pod.Spec.NodeName != "" {
		o.Node, _ = find[corev1.Node](ctx, here, core("nodes"), "", o.Pod.Spec.NodeName)
	}
	readMapping(ctx, here, &o)
	if there != nil && remoteNamespace != "" {
		var knowsShadow, knowsPod bool
		o.ShadowPod, knowsShadow = find[offloadingv1beta1.ShadowPod](ctx, there, offloading("shadowpods"), remoteNamespace, name)
		o.RemotePod, knowsPod = find[corev1.Pod](ctx, there, core("pods"), remoteNamespace, name)
		o.Provider = knowsShadow && knowsPod
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("explaining the pod: %w", err)
	}
	return planner.Diagnose(o), nil
}

// find reads an object; nil if it does not exist, or cannot be read, which is not known then.
func find[T any](ctx context.Context, c *cluster.Cluster, resource schema.GroupVersionResource, namespace, name string) (found *T, isKnown bool) {
	object := new(T)
	err := c.Get(ctx, resource, namespace, name, object)
	if err == nil {
		return object, true
	}
	_, isAbsent := errors.AsType[*cluster.AbsentError](err)
	return nil, isAbsent
}

// readMapping reads the NamespaceMap of the provider of a pod's node, if the user may.
func readMapping(ctx context.Context, here *cluster.Cluster, o *planner.Observed) {
	if o.Node == nil || o.Node.Labels[offloadingv1beta1.NodeTypeLabel] != offloadingv1beta1.NodeTypeVirtual {
		return
	}
	provider := o.Node.Labels[liqocorev1beta1.RemoteClusterIDLabel]
	err := cluster.List(ctx, here, offloading("namespacemaps"), func(nm *offloadingv1beta1.NamespaceMap) {
		if nm.Labels[liqocorev1beta1.RemoteIDLabel] != provider || nm.Labels[liqocorev1beta1.ReplicationLabel] != "true" {
			return
		}
		o.KnowsMapping = true
		if current, known := nm.Status.CurrentMapping[here.Namespace]; known {
			o.Mapping = &current
		}
	})
	o.KnowsMapping = o.KnowsMapping && err == nil
}
