package node

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	offloadingv1beta1 "github.com/longshore-dev/longshore/host/apis/offloading/v1beta1"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/kit/quantity"
)

// Reason of an event on a VirtualNode whose Node is not as desired.
type Reason string

// The reasons.
const (
	// ReasonUnreachable: the provider does not answer, so the Node is not registered or not
	// renewed.
	ReasonUnreachable Reason = "ProviderUnreachable"
	// ReasonRefused: the consumer's API server rejects the Node as invalid.
	ReasonRefused Reason = "NodeRefused"
	// ReasonForeignCondition: another client sets a condition that keeps pods away from the Node.
	ReasonForeignCondition Reason = "ForeignCondition"
	// ReasonProviderID: the Node has another provider ID than the VirtualNode gives.
	ReasonProviderID Reason = "ProviderIDNotChanged"
)

const (
	// reportInterval is how often a cause that lasts is reported: events expire after an hour.
	reportInterval = 10 * time.Minute
	// refusedRetry is how soon a rejected Node is sent again although it has not changed.
	refusedRetry = time.Minute
)

// lastReport is the last report of one reason.
type lastReport struct {
	message string
	at      time.Time
}

// report records an event on the VirtualNode and returns true, unless the same was reported
// within reportInterval. Messages about an unreachable provider contain ephemeral ports, so
// only their reason is compared.
func (n *Node) report(ctx context.Context, reason Reason, message string) bool {
	now := n.options.Now()
	n.mu.Lock()
	last, wasReported := n.reports[reason]
	vn := n.virtualNode
	isRepeated := wasReported && now.Sub(last.at) < reportInterval && (reason == ReasonUnreachable || last.message == message)
	if !isRepeated {
		n.reports[reason] = lastReport{message: message, at: now}
	}
	n.mu.Unlock()
	if isRepeated {
		return false
	}
	if n.options.Report != nil {
		n.options.Report(ctx, vn, reason, message)
	}
	return true
}

// clearReport makes the next report of a reason go out at once.
func (n *Node) clearReport(reason Reason) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.reports, reason)
}

// reportRefused reports that the API server rejects the Node. The webhook for VirtualNodes
// prevents that, but it can be disabled or newer than the VirtualNode.
func (n *Node) reportRefused(ctx context.Context, err error) {
	if n.report(ctx, ReasonRefused, "The API server rejects the Node. Correct the VirtualNode: "+err.Error()) {
		logr.FromContextOrDiscard(ctx).Info("The API server rejects the node, waiting for a change of the VirtualNode", "node", n.name(), "reason", err.Error())
	}
}

// reportForeignConditions reports the conditions of other clients, which the next publication undoes. A
// client that sets them again and again keeps pods away for moments.
func (n *Node) reportForeignConditions(ctx context.Context, desired *corev1.Node) {
	n.mu.Lock()
	server := n.server
	n.mu.Unlock()
	if server == nil {
		return
	}
	for _, c := range local.ForeignConditions(server.Status.Conditions, desired.Status.Conditions) {
		message := fmt.Sprintf("Another client set the condition %s of the Node to %s, and the virtual kubelet sets it back. Exclude Nodes with the label %s=%s from that client. Its reason: %s: %s",
			c.Type, c.Status, offloadingv1beta1.NodeTypeLabel, offloadingv1beta1.NodeTypeVirtual, c.Reason, c.Message)
		if n.report(ctx, ReasonForeignCondition, message) {
			logr.FromContextOrDiscard(ctx).Info("Setting back a condition of another client", "node", n.name(), "condition", c.Type, "reason", c.Reason)
		}
	}
}

// awaitChange waits until the desired Node differs from the rejected one, or for
// refusedRetry.
func (n *Node) awaitChange(ctx context.Context, rejected *corev1.Node) {
	timer := time.NewTimer(refusedRetry)
	defer timer.Stop()
	for isSameRequest(rejected, n.desired()) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-n.changed:
		}
	}
}

// isSameRequest reports whether two desired Nodes are equal in all that the API server
// validates.
func isSameRequest(a, b *corev1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		quantity.Equal(a.Spec.Taints, b.Spec.Taints) && quantity.Equal(a.Status.Capacity, b.Status.Capacity)
}
