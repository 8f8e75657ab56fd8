package webhook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/policysource"
)

// replicaLabels are the labels that the pods of all replicas have in common.
var replicaLabels = []string{"app.kubernetes.io/name", "app.kubernetes.io/instance"}

// componentName returns the name of a replica in policy status.
func componentName(pod string) string {
	if pod == "" {
		return Component
	}
	return Component + "/" + pod
}

// components lists the components that run policies: the replicas of the webhook, and a virtual
// kubelet for each VirtualNode.
type components struct {
	reader client.Reader
	// pod is the pod of this replica. Without a name, it is the only replica.
	pod client.ObjectKey
}

// list returns the names of the components in policy status. A replica is listed while its pod
// exists, and a terminating one while it is ready. The speaker is the first replica that is ready
// and not terminating.
//
// +kubebuilder:rbac:groups=offloading.liqo.io,resources=virtualnodes,verbs=get;list;watch
func (c components) list(ctx context.Context) (policysource.Components, error) {
	own := componentName(c.pod.Name)
	out := policysource.Components{Names: map[string]bool{own: true}}
	nodes := &offloadingv1beta1.VirtualNodeList{}
	if err := c.reader.List(ctx, nodes); err != nil {
		return out, fmt.Errorf("listing VirtualNodes: %w", err)
	}
	for i := range nodes.Items {
		out.Names[policysource.VirtualKubelet+nodes.Items[i].Name] = true
	}
	replicas, err := c.replicas(ctx)
	if apierrors.IsNotFound(err) {
		// The cache does not have this pod yet, and possibly not the others.
		return policysource.Components{Speaker: own}, nil
	}
	if err != nil {
		return out, err
	}
	for i := range replicas {
		name := componentName(replicas[i].Name)
		out.Names[name] = true
		if replicas[i].DeletionTimestamp.IsZero() && isReady(&replicas[i]) && (out.Speaker == "" || name < out.Speaker) {
			out.Speaker = name
		}
	}
	if out.Speaker == "" {
		out.Speaker = own
	}
	return out, nil
}

// replicas returns the pods of the webhook that serve requests or will do so. A terminating pod
// serves until it is not ready any more (ShutdownDelay).
func (c components) replicas(ctx context.Context) ([]corev1.Pod, error) {
	if c.pod.Name == "" {
		return nil, nil
	}
	own := &corev1.Pod{}
	if err := c.reader.Get(ctx, c.pod, own); err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", c.pod, err)
	}
	shared := client.MatchingLabels{}
	for _, key := range replicaLabels {
		if own.Labels[key] == "" {
			return nil, nil
		}
		shared[key] = own.Labels[key]
	}
	pods := &corev1.PodList{}
	if err := c.reader.List(ctx, pods, client.InNamespace(c.pod.Namespace), shared); err != nil {
		return nil, fmt.Errorf("listing the replicas of the webhook: %w", err)
	}
	var active []corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !ended && (pod.DeletionTimestamp.IsZero() || isReady(pod)) {
			active = append(active, *pod)
		}
	}
	return active, nil
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// componentWatcher calls changed when a component that runs policies is deleted, or when the
// speaker may have changed.
type componentWatcher struct {
	cache cache.Cache
	// replicas is true if the pods of replicas are watched.
	replicas bool
	changed  func()
}

// Start implements manager.Runnable.
func (d componentWatcher) Start(ctx context.Context) error {
	gone := toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { d.changed() }}
	if err := d.watch(ctx, &offloadingv1beta1.VirtualNode{}, gone); err != nil {
		return fmt.Errorf("watching VirtualNodes: %w", err)
	}
	if d.replicas {
		changed := toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { d.changed() }, UpdateFunc: func(before, after any) {
			was, _ := before.(*corev1.Pod)
			is, _ := after.(*corev1.Pod)
			if was != nil && is != nil && (isReady(was) != isReady(is) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()) {
				d.changed()
			}
		}}
		if err := d.watch(ctx, &corev1.Pod{}, changed); err != nil {
			return fmt.Errorf("watching the replicas of the webhook: %w", err)
		}
	}
	<-ctx.Done()
	return nil
}

// watch calls the handler until the context ends.
func (d componentWatcher) watch(ctx context.Context, kind client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := d.cache.GetInformer(ctx, kind)
	if err != nil {
		return err //nolint:wrapcheck // The caller wraps it.
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return err //nolint:wrapcheck // The caller wraps it.
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) }) // The process ends.
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica watches.
func (componentWatcher) NeedLeaderElection() bool { return false }
