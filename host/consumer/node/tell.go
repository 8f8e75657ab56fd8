package node

import (
	"context"
	"maps"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Reason of an event on a VirtualNode whose Node is not as it is to be.
type Reason string

// The reasons.
const (
	// ReasonUnreachable: the provider does not answer, so the Node is not made, or not kept.
	ReasonUnreachable Reason = "ProviderUnreachable"
	// ReasonRefused: the consumer's API server takes no such Node.
	ReasonRefused Reason = "NodeRefused"
)

const (
	// tellAgain is how long a cause lasts before it is told again: events are forgotten
	// after an hour.
	tellAgain = 10 * time.Minute
	// refusedPause is how soon a Node that was refused is tried again although it is to
	// be the same.
	refusedPause = time.Minute
)

// telling is what was told last for one reason.
type telling struct {
	message string
	at      time.Time
}

// tell tells the owner of the VirtualNode what is in the way of the Node, and reports
// whether it did: not what was told a moment ago. Messages about the network differ in
// port numbers that nobody asked for, so there the reason alone counts.
func (n *Node) tell(ctx context.Context, reason Reason, message string) bool {
	now := n.options.Now()
	n.mu.Lock()
	last, had := n.told[reason]
	vn := n.virtualNode
	recent := had && now.Sub(last.at) < tellAgain && (reason == ReasonUnreachable || last.message == message)
	if !recent {
		n.told[reason] = telling{message: message, at: now}
	}
	n.mu.Unlock()
	if recent {
		return false
	}
	if n.options.Tell != nil {
		n.options.Tell(ctx, vn, reason, message)
	}
	return true
}

// forget lets a cause that has ended be told at once when it comes back.
func (n *Node) forget(reason Reason) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.told, reason)
}

// refused tells that the API server takes no such Node. The admission of VirtualNodes
// lets none through, but it can be off, or younger than the VirtualNode.
func (n *Node) refused(ctx context.Context, err error) {
	if n.tell(ctx, ReasonRefused, "The API server refuses the Node, correct the VirtualNode: "+err.Error()) {
		logr.FromContextOrDiscard(ctx).Info("The API server refuses the node, waiting for another VirtualNode", "node", n.name(), "reason", err.Error())
	}
}

// untilAnother waits until the Node is to be another one than was refused, or for a while.
func (n *Node) untilAnother(ctx context.Context, refused *corev1.Node) {
	timer := time.NewTimer(refusedPause)
	defer timer.Stop()
	for same(refused, n.desired()) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-n.changed:
		}
	}
}

// same reports whether two Nodes that are to be differ in nothing that could be refused.
func same(a, b *corev1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) && equality.Semantic.DeepEqual(a.Status.Capacity, b.Status.Capacity)
}
