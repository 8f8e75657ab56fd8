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

// replicaLabels are those that the pods of all replicas have in common, whatever they are
// called.
var replicaLabels = []string{"app.kubernetes.io/name", "app.kubernetes.io/instance"}

// componentName is how a replica names itself in policy status.
func componentName(pod string) string {
	if pod == "" {
		return Component
	}
	return Component + "/" + pod
}

// components knows who runs policies: the replicas of the webhook, and a virtual kubelet
// for each VirtualNode.
type components struct {
	reader client.Reader
	// pod is this replica's; without a name it is the only one.
	pod client.ObjectKey
}

// list names them as they name themselves in policy status. A replica is there as long as
// its pod is, and one that leaves as long as it serves; the first of those that serve and
// stay speaks for all.
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
		// The cache does not show this pod yet, and so perhaps no other: nobody is dismissed.
		return policysource.Components{Speaker: own}, nil
	}
	if err != nil {
		return out, err
	}
	for i := range replicas {
		name := componentName(replicas[i].Name)
		out.Names[name] = true
		stays := replicas[i].DeletionTimestamp.IsZero()
		if stays && serves(&replicas[i]) && (out.Speaker == "" || name < out.Speaker) {
			out.Speaker = name
		}
	}
	if out.Speaker == "" {
		out.Speaker = own
	}
	return out, nil
}

// replicas returns the pods of the webhook that answer, or will: one that leaves answers
// until it is no longer ready (ShutdownDelay), and a version has not reached everybody
// before it has.
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
	var there []corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !ended && (pod.DeletionTimestamp.IsZero() || serves(pod)) {
			there = append(there, *pod)
		}
	}
	return there, nil
}

func serves(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// departures tells when somebody who ran policies may have gone, or another replica is to
// speak.
type departures struct {
	cache cache.Cache
	// replicas tells whether the pods of replicas are watched.
	replicas bool
	tell     func()
}

// Start implements manager.Runnable.
func (d departures) Start(ctx context.Context) error {
	gone := toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { d.tell() }}
	if err := d.watch(ctx, &offloadingv1beta1.VirtualNode{}, gone); err != nil {
		return fmt.Errorf("watching VirtualNodes: %w", err)
	}
	if d.replicas {
		changed := toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { d.tell() }, UpdateFunc: func(before, after any) {
			was, _ := before.(*corev1.Pod)
			is, _ := after.(*corev1.Pod)
			if was != nil && is != nil && (serves(was) != serves(is) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()) {
				d.tell()
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
func (d departures) watch(ctx context.Context, kind client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := d.cache.GetInformer(ctx, kind)
	if err != nil {
		return err //nolint:wrapcheck // The caller says of what.
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return err //nolint:wrapcheck // The caller says of what.
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) }) // The process ends.
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: any replica may have to
// speak.
func (departures) NeedLeaderElection() bool { return false }
