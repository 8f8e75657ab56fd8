package explain

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/longshore-dev/longshore/cmd/longshorectl/cluster"
	"github.com/longshore-dev/longshore/cmd/longshorectl/plan"
	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	remoteforge "github.com/longshore-dev/longshore/host/forge/remote"
	"github.com/longshore-dev/longshore/host/planner"
)

// observe reads a pod, and what decides where it runs. Of what the user may not read, nothing is
// wrong.
func observe(ctx context.Context, here *cluster.Cluster, name string) (*planner.Observed, error) {
	o := &planner.Observed{Pod: &corev1.Pod{}}
	if err := here.Get(ctx, core("pods"), here.Namespace, name, o.Pod); err != nil {
		return nil, err
	}
	var isKnown bool
	o.Offloading, isKnown = find[offloadingv1beta1.NamespaceOffloading](ctx, here, offloading("namespaceoffloadings"), here.Namespace, offloadingv1beta1.NamespaceOffloadingName)
	if !isKnown {
		o.Offloading = &offloadingv1beta1.NamespaceOffloading{}
	}
	o.Namespace, _ = find[corev1.Namespace](ctx, here, core("namespaces"), "", here.Namespace)
	if o.Pod.Spec.NodeName != "" {
		o.Node, _ = find[corev1.Node](ctx, here, core("nodes"), "", o.Pod.Spec.NodeName)
	}
	readMapping(ctx, here, o)
	return o, nil
}

// observeRemote reads the ShadowPod and the remote pod.
func observeRemote(ctx context.Context, there *cluster.Cluster, namespace string, o *planner.Observed) {
	var knowsShadow, knowsPod bool
	o.ShadowPod, knowsShadow = find[offloadingv1beta1.ShadowPod](ctx, there, offloading("shadowpods"), namespace, o.Pod.Name)
	o.RemotePod, knowsPod = find[corev1.Pod](ctx, there, core("pods"), namespace, o.Pod.Name)
	o.Provider = knowsShadow && knowsPod
}

// diagnose returns the first thing that is wrong with a pod; nil if it runs. Without a provider,
// the pod's own status has what the provider reports.
func diagnose(ctx context.Context, here, there *cluster.Cluster, remoteNamespace string, o *planner.Observed) (*planner.Diagnosis, error) {
	if planner.Diagnose(planner.Observed{Pod: o.Pod, Offloading: o.Offloading, Namespace: o.Namespace, Node: o.Node}) == nil {
		return nil, nil
	}
	switch {
	case o.Pod.Spec.NodeName == "":
		if facts, err := plan.ReadVirtualNodes(ctx, here); err == nil {
			o.Facts = facts
		}
	case planner.IsVirtual(o.Node):
		err := cluster.List(ctx, here, offloading("virtualnodes"), func(vn *offloadingv1beta1.VirtualNode) { o.Facts.VirtualNodes = append(o.Facts.VirtualNodes, *vn) })
		if err != nil {
			o.Facts.VirtualNodes = nil
		}
	}
	readNeeds(ctx, here, o)
	readEvents(ctx, here, here.Namespace, o)
	if o.Provider {
		readAbsent(ctx, there, remoteNamespace, o)
		readEvents(ctx, there, remoteNamespace, o)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("explaining the pod: %w", err)
	}
	return planner.Diagnose(*o), nil
}

// resources are those of the kinds that a pod refers to.
var resources = map[string]schema.GroupVersionResource{
	"ConfigMap": core("configmaps"), "Secret": core("secrets"), "PersistentVolumeClaim": core("persistentvolumeclaims"),
}

// readNeeds reads the objects that the pod refers to, of ConfigMaps and Secrets only their metadata.
func readNeeds(ctx context.Context, here *cluster.Cluster, o *planner.Observed) {
	inventory := planner.NewInventory(true)
	o.Facts.Inventory = inventory
	knowsClasses := false
	for _, r := range o.References() {
		if r.Kind != "PersistentVolumeClaim" {
			meta, err := here.Metadata(ctx, resources[r.Kind], here.Namespace, r.Name)
			switch {
			case err == nil:
				inventory.Add(r.Kind, meta.ObjectMeta)
			case !isAbsent(err):
				inventory.AddUnreadable(r.Kind, here.Namespace, r.Name)
			}
			continue
		}
		if !knowsClasses {
			knowsClasses = cluster.List(ctx, here, storagev1.SchemeGroupVersion.WithResource("storageclasses"), inventory.AddStorageClass) == nil
		}
		claim, isKnown := find[corev1.PersistentVolumeClaim](ctx, here, resources[r.Kind], here.Namespace, r.Name)
		switch {
		case !isKnown, claim != nil && !knowsClasses:
			inventory.AddUnreadable(r.Kind, here.Namespace, r.Name)
		case claim != nil:
			inventory.AddClaim(claim)
		}
	}
}

// readAbsent finds the objects that the remote pod refers to and that the provider does not have.
func readAbsent(ctx context.Context, there *cluster.Cluster, namespace string, o *planner.Observed) {
	if o.ShadowPod == nil {
		return
	}
	origin := remoteforge.Origin{HomeClusterID: o.ShadowPod.Labels[offloadingv1beta1.OriginLabel]}
	for _, r := range o.References() {
		name := r.Name
		if r.Kind == "ConfigMap" {
			name = remoteforge.ConfigMapName(name, origin)
		}
		if _, err := there.Metadata(ctx, resources[r.Kind], namespace, name); isAbsent(err) {
			o.Absent = append(o.Absent, r)
		}
	}
}

// readEvents reads the warnings about the pod and the objects that it needs.
func readEvents(ctx context.Context, c *cluster.Cluster, namespace string, o *planner.Observed) {
	for _, r := range append(o.References(), planner.Reference{Kind: "Pod", Name: o.Pod.Name}) {
		if r.Optional {
			continue
		}
		selector := fields.SelectorFromSet(fields.Set{"involvedObject.kind": r.Kind, "involvedObject.name": r.Name, "type": corev1.EventTypeWarning})
		_ = cluster.Select(ctx, c, core("events"), namespace, metav1.ListOptions{FieldSelector: selector.String()}, func(event *corev1.Event) {
			o.Events = append(o.Events, *event)
		})
	}
}

// find reads an object; nil if it does not exist, or cannot be read, which is not known then.
func find[T any](ctx context.Context, c *cluster.Cluster, resource schema.GroupVersionResource, namespace, name string) (found *T, isKnown bool) {
	object := new(T)
	err := c.Get(ctx, resource, namespace, name, object)
	if err == nil {
		return object, true
	}
	return nil, isAbsent(err)
}

func isAbsent(err error) bool {
	_, found := errors.AsType[*cluster.AbsentError](err)
	return found
}

// providerOf returns the cluster ID of the provider of a pod's node, or "".
func providerOf(o *planner.Observed) string {
	if !planner.IsVirtual(o.Node) {
		return ""
	}
	return o.Node.Labels[liqocorev1beta1.RemoteClusterIDLabel]
}

// readMapping reads the ForeignCluster and the NamespaceMap of the provider of a pod's node, if the
// user may.
func readMapping(ctx context.Context, here *cluster.Cluster, o *planner.Observed) {
	provider := providerOf(o)
	if provider == "" {
		return
	}
	_ = cluster.List(ctx, here, liqocorev1beta1.GroupVersion.WithResource("foreignclusters"), func(peer *liqocorev1beta1.ForeignCluster) {
		if string(peer.Spec.ClusterID) == provider {
			o.Peer = peer
		}
	})
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
