package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// Ping tells whether the provider can be reached (5.5). While it fails, neither lease
// nor status of the Node are renewed, so that the consumer's controllers take over.
func (n *Node) Ping(ctx context.Context) error {
	if n.options.PingInterval == 0 {
		return nil
	}
	limited := ctx
	if n.options.PingTimeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, n.options.PingTimeout)
		defer cancel()
	}
	err := n.reach(limited)
	if !errors.Is(ctx.Err(), context.Canceled) {
		// Whoever stops says nothing about the provider; a timeout does.
		n.notePing(ctx, err)
	}
	return err
}

// reach believes the ForeignCluster where somebody probes the peer, and asks the peer
// itself where nobody does.
func (n *Node) reach(ctx context.Context) error {
	n.mu.Lock()
	fc := n.foreignCluster
	n.mu.Unlock()
	provider := n.options.VirtualNode.Spec.ClusterID
	if fc != nil {
		switch status := statusOf(fc.Status.Conditions, liqocorev1beta1.APIServerStatusCondition); status {
		case "", liqocorev1beta1.ConditionStatusNone:
		case liqocorev1beta1.ConditionStatusEstablished:
			return nil
		default:
			return fmt.Errorf("ForeignCluster %s says of the API server of cluster %q: %s", fc.Name, provider, status)
		}
	}
	if err := n.options.RemoteHealth(ctx); err != nil {
		return fmt.Errorf("asking the API server of cluster %q: %w", provider, err)
	}
	return nil
}

// notePing logs what changed, and publishes the status at once when the provider is
// back: the lease alone does not make a Node ready again.
func (n *Node) notePing(ctx context.Context, err error) {
	n.mu.Lock()
	had, first := n.pingError, !n.pinged
	// A Node that is there lasts through one look that fails.
	overdue := had != nil || n.published == nil && n.server == nil
	n.pingError, n.pinged = err, true
	now := n.options.Now()
	if err == nil {
		n.answered = now
	}
	silence := now.Sub(n.answered)
	n.mu.Unlock()
	if n.options.Unreachable != nil && (err == nil || silence >= n.options.LeaseDuration/2) {
		n.options.Unreachable(err != nil)
	}
	if n.options.Reachable != nil {
		n.options.Reachable(err == nil)
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("node", n.name(), "remoteCluster", n.options.VirtualNode.Spec.ClusterID)
	if err != nil && overdue {
		n.tell(ctx, ReasonUnreachable, "The provider cannot be reached, so the Node is not made, or not kept: "+err.Error()+
			"; make sure that the provider runs, and that the kubeconfig of spec.kubeconfigSecretRef leads to it")
	}
	switch {
	case err != nil && had == nil:
		log.Info("The provider cannot be reached, the node's lease is not renewed", "reason", err.Error())
	case err == nil && (had != nil || first):
		log.Info("The provider can be reached")
		n.forget(ReasonUnreachable)
		n.wake()
	}
}

func statusOf(conditions []liqocorev1beta1.Condition, conditionType liqocorev1beta1.ConditionType) liqocorev1beta1.ConditionStatusType {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return conditions[i].Status
		}
	}
	return ""
}
