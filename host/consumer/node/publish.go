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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/quantity"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// taintsAnnotation on the Node lists the taints that come from the VirtualNode, as
// key:effect. A taint that was removed from the VirtualNode while no virtual kubelet ran is
// removed from the Node too; other taints are kept. Only applySpec writes it: the node
// controller could remove it before it was read.
const taintsAnnotation = "longshore.dev/applied-taints"

// recordedTaints returns the value of taintsAnnotation; empty without taints.
func recordedTaints(vn *offloadingv1beta1.VirtualNode) string {
	var taints []string
	for i := range vn.Spec.Taints {
		taints = append(taints, taintID(&vn.Spec.Taints[i]))
	}
	return strings.Join(taints, ",")
}

func taintID(taint *corev1.Taint) string { return taint.Key + ":" + string(taint.Effect) }

// notifier is the provider of virtual-kubelet's node controller.
type notifier struct {
	node  *Node
	group *sync.WaitGroup
}

// Ping implements vknode.NodeProvider.
func (p *notifier) Ping(ctx context.Context) error { return p.node.Ping(ctx) }

// NotifyNodeStatus implements vknode.NodeProvider: it publishes after each change until the
// context ends.
func (p *notifier) NotifyNodeStatus(ctx context.Context, publish func(*corev1.Node)) {
	n := p.node
	p.group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-n.refreshed:
			case <-n.changed:
				if !retry.Pause(ctx, publishDelay) {
					return
				}
			}
			if registered := n.takeRegistered(); registered != nil {
				publishNode(ctx, publish, registered)
			}
			desired := n.desired()
			n.reportForeignConditions(ctx, desired)
			if n.needsPublish(desired) {
				n.setPublished(desired)
				publishNode(ctx, publish, desired)
			}
			n.applySpec(ctx, desired)
		}
	})
}

// takeRegistered returns the Node as it was registered; nil when called again. The node
// controller removes only fields that it has published itself, so the registered Node is
// published once.
func (n *Node) takeRegistered() *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	registered := n.registered
	n.registered = nil
	return registered
}

// publishNode passes a Node to the node controller, whose callback blocks forever after the
// controller has stopped.
func publishNode(ctx context.Context, publish func(*corev1.Node), node *corev1.Node) {
	done := make(chan struct{})
	go func() {
		publish(node.DeepCopy())
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// needsPublish reports whether the desired Node differs from the one published last, or the
// API server's Node has lost a part of it.
func (n *Node) needsPublish(desired *corev1.Node) bool {
	n.mu.Lock()
	published, server := n.published, n.server
	n.mu.Unlock()
	if published == nil || !maps.Equal(published.Labels, desired.Labels) || !maps.Equal(published.Annotations, desired.Annotations) ||
		!quantity.Equal(withoutHeartbeats(&published.Status), withoutHeartbeats(&desired.Status)) {
		return true
	}
	return server != nil && (!containsPairs(server.Labels, desired.Labels) || !containsPairs(server.Annotations, desired.Annotations) ||
		hasLostConditions(server, desired) || !containsResources(server.Status.Capacity, desired.Status.Capacity) ||
		!containsResources(server.Status.Allocatable, desired.Status.Allocatable))
}

// withoutHeartbeats returns a copy without heartbeat times, which always differ.
func withoutHeartbeats(status *corev1.NodeStatus) *corev1.NodeStatus {
	clean := status.DeepCopy()
	for i := range clean.Conditions {
		clean.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return clean
}

func containsPairs(all, part map[string]string) bool {
	for key, value := range part {
		if current, exists := all[key]; !exists || current != value {
			return false
		}
	}
	return true
}

func containsResources(all, part corev1.ResourceList) bool {
	for key, value := range part {
		if current, exists := all[key]; !exists || !quantity.Equal(current, value) {
			return false
		}
	}
	return true
}

// hasLostConditions reports whether another client changed a condition, such as the node lifecycle
// controller, which marks a Node as unknown, or the Node was created again without conditions.
func hasLostConditions(server, desired *corev1.Node) bool {
	return slices.ContainsFunc(desired.Status.Conditions, func(want corev1.NodeCondition) bool {
		return !slices.ContainsFunc(server.Status.Conditions, func(current corev1.NodeCondition) bool {
			return current.Type == want.Type && current.Status == want.Status && current.Reason == want.Reason &&
				(current.Message == want.Message || want.Message == "") // A patch does not remove a message.
		})
	})
}

func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status
		}
	}
	return ""
}

// applySpec sets the desired taints and keeps those of other owners, and sets a provider ID that is missing:
// the API server allows no change of one. The patch contains the resourceVersion that was read, because
// the cluster's controllers write taints too; after a conflict, the next event tries again.
func (n *Node) applySpec(ctx context.Context, desired *corev1.Node) {
	n.mu.Lock()
	server, record := n.server, recordedTaints(n.virtualNode)
	n.mu.Unlock()
	if server == nil || server.DeletionTimestamp != nil {
		return
	}
	taints, providerID := mergeTaints(server, desired), n.providerID(ctx, server, desired)
	if quantity.Equal(server.Spec.Taints, taints) && server.Annotations[taintsAnnotation] == record && server.Spec.ProviderID == providerID {
		return
	}
	annotations := map[string]any{taintsAnnotation: nil}
	if record != "" {
		annotations[taintsAnnotation] = record
	}
	log := logr.FromContextOrDiscard(ctx)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": server.ResourceVersion, "annotations": annotations},
		"spec":     map[string]any{"taints": taints, "providerID": providerID},
	})
	if err == nil {
		log.Info("Setting the node's taints and provider ID", "node", n.name())
		_, err = n.options.Nodes.Patch(ctx, n.name(), types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if apierrors.IsInvalid(err) {
		n.reportRefused(ctx, err)
		return
	}
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		log.Error(fmt.Errorf("setting taints and provider ID of node %q: %w", n.name(), err), "Applying the node's spec failed, retrying after the next change of the node")
	}
}

// providerID returns the provider ID of the API server's Node, or the desired one if it has none.
func (n *Node) providerID(ctx context.Context, server, desired *corev1.Node) string {
	current, want := server.Spec.ProviderID, desired.Spec.ProviderID
	if current == "" {
		return want
	}
	if want != "" && want != current {
		n.report(ctx, ReasonProviderID, fmt.Sprintf("The Node has the provider ID %q, which cannot be changed to %q: delete the Node, and it is created again with the other one.", current, want))
	}
	return current
}

// mergeTaints keeps the order of the existing taints, removes recorded taints that are no
// longer desired and appends those that are missing.
func mergeTaints(server, desired *corev1.Node) []corev1.Taint {
	recorded := strings.Split(server.Annotations[taintsAnnotation], ",")
	var merged []corev1.Taint
	for i := range server.Spec.Taints {
		taint := server.Spec.Taints[i]
		match := slices.IndexFunc(desired.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
		switch {
		case match >= 0:
			taint.Value = desired.Spec.Taints[match].Value
			merged = append(merged, taint)
		case !slices.Contains(recorded, taintID(&taint)):
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
