package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// taintsAnnotation on the Node lists the taints that come from the VirtualNode, as
// key:effect, so that one which is removed there while nobody runs is removed here too,
// and those of the cluster's own controllers are left alone. Only the patch of taints
// writes it: in the hands of the node controller it could vanish before it was read.
const taintsAnnotation = "longshore.dev/applied-taints"

// taintRecord is the value of taintsAnnotation, empty for no taints.
func taintRecord(vn *offloadingv1beta1.VirtualNode) string {
	var taints []string
	for i := range vn.Spec.Taints {
		taints = append(taints, taintID(&vn.Spec.Taints[i]))
	}
	return strings.Join(taints, ",")
}

func taintID(taint *corev1.Taint) string { return taint.Key + ":" + string(taint.Effect) }

// notifier is what virtual-kubelet's node controller asks.
type notifier struct {
	node  *Node
	group *sync.WaitGroup
}

// Ping implements vknode.NodeProvider.
func (p *notifier) Ping(ctx context.Context) error { return p.node.Ping(ctx) }

// NotifyNodeStatus implements vknode.NodeProvider: it publishes each time something
// changed, until the context ends.
func (p *notifier) NotifyNodeStatus(ctx context.Context, publish func(*corev1.Node)) {
	n := p.node
	p.group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-n.changed:
			}
			if !retry.Pause(ctx, recoveryPause) {
				return
			}
			if created := n.takeUnrecorded(); created != nil {
				handOver(ctx, publish, created)
			}
			desired := n.desired()
			if n.stale(desired) {
				n.setPublished(desired)
				handOver(ctx, publish, desired)
			}
			n.healTaints(ctx, desired)
		}
	})
}

// takeUnrecorded returns the Node as it was registered, once. The node controller removes
// what it published before and is not wanted any more, and it does not count what a
// Node was created with: so that is published once too (T64).
func (n *Node) takeUnrecorded() *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	created := n.unrecorded
	n.unrecorded = nil
	return created
}

// handOver gives a Node to the controller, which takes one at a time and none any more
// once it has stopped.
func handOver(ctx context.Context, publish func(*corev1.Node), node *corev1.Node) {
	taken := make(chan struct{})
	go func() {
		publish(node.DeepCopy())
		close(taken)
	}()
	select {
	case <-taken:
	case <-ctx.Done():
	}
}

// stale reports whether the Node must be published: it is to be another one than was
// published last, or the server's has lost something of it.
func (n *Node) stale(desired *corev1.Node) bool {
	n.mu.Lock()
	published, server := n.published, n.server
	n.mu.Unlock()
	if published == nil || !maps.Equal(published.Labels, desired.Labels) || !maps.Equal(published.Annotations, desired.Annotations) ||
		!equality.Semantic.DeepEqual(timeless(&published.Status), timeless(&desired.Status)) {
		return true
	}
	return server != nil && (lacks(server.Labels, desired.Labels) || lacks(server.Annotations, desired.Annotations) ||
		lostReady(server, desired) || !carries(server.Status.Capacity, desired.Status.Capacity) ||
		!carries(server.Status.Allocatable, desired.Status.Allocatable))
}

// timeless drops the heartbeats, which change with every look.
func timeless(status *corev1.NodeStatus) *corev1.NodeStatus {
	clean := status.DeepCopy()
	for i := range clean.Conditions {
		clean.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return clean
}

func lacks(have, want map[string]string) bool {
	for key, value := range want {
		if current, present := have[key]; !present || current != value {
			return true
		}
	}
	return false
}

func carries(have, want corev1.ResourceList) bool {
	for key, value := range want {
		if current, present := have[key]; !present || current.Cmp(value) != 0 {
			return false
		}
	}
	return true
}

// lostReady reports whether the consumer's controllers gave the Node up meanwhile, or
// created it again.
func lostReady(server, desired *corev1.Node) bool {
	current := ready(server)
	return (current == corev1.ConditionUnknown || current == "") && ready(desired) != corev1.ConditionUnknown
}

func ready(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status
		}
	}
	return ""
}

// healTaints brings the Node's taints to what is wanted, keeping those of others (T63).
// The patch carries the version that was looked at: the cluster's controllers write
// taints too, and the next event tries again.
func (n *Node) healTaints(ctx context.Context, desired *corev1.Node) {
	n.mu.Lock()
	server, record := n.server, taintRecord(n.virtualNode)
	n.mu.Unlock()
	if server == nil || server.DeletionTimestamp != nil {
		return
	}
	taints := mergeTaints(server, desired)
	if equality.Semantic.DeepEqual(server.Spec.Taints, taints) && server.Annotations[taintsAnnotation] == record {
		return
	}
	annotations := map[string]any{taintsAnnotation: nil}
	if record != "" {
		annotations[taintsAnnotation] = record
	}
	log := logr.FromContextOrDiscard(ctx)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": server.ResourceVersion, "annotations": annotations},
		"spec":     map[string]any{"taints": taints},
	})
	if err == nil {
		log.Info("Setting the node's taints", "node", n.name())
		_, err = n.options.Nodes.Patch(ctx, n.name(), types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if apierrors.IsInvalid(err) {
		n.refused(ctx, err)
		return
	}
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		log.Error(fmt.Errorf("setting the taints of node %q: %w", n.name(), err), "The node's taints are not as wanted, the next change of the node tries again")
	}
}

// mergeTaints keeps the order of what is there, drops what was ours and is not wanted
// any more, and adds what is missing.
func mergeTaints(server, desired *corev1.Node) []corev1.Taint {
	ours := strings.Split(server.Annotations[taintsAnnotation], ",")
	var merged []corev1.Taint
	for i := range server.Spec.Taints {
		taint := server.Spec.Taints[i]
		wanted := slices.IndexFunc(desired.Spec.Taints, func(w corev1.Taint) bool { return w.MatchTaint(&taint) })
		switch {
		case wanted >= 0:
			taint.Value = desired.Spec.Taints[wanted].Value
			merged = append(merged, taint)
		case !slices.Contains(ours, taintID(&taint)):
			merged = append(merged, taint)
		}
	}
	for i := range desired.Spec.Taints {
		if !local.HasTaint(merged, &desired.Spec.Taints[i]) {
			merged = append(merged, desired.Spec.Taints[i])
		}
	}
	return merged
}
