package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	liqocorev1beta1 "github.com/longshore-dev/longshore/host/apis/core/v1beta1"
)

// Ping returns an error if the provider cannot be reached. While it fails, neither
// the lease nor the status of the Node is renewed, and the consumer's node controller marks
// the Node.
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
	err := n.checkProvider(limited)
	// A canceled ping is not a result; one that exceeds its deadline is.
	if !errors.Is(ctx.Err(), context.Canceled) {
		n.recordPing(ctx, err)
	}
	return err
}

// checkProvider checks the provider over the link of this process. The condition of the
// ForeignCluster does not count: it is about the link of another process.
func (n *Node) checkProvider(ctx context.Context) error {
	if err := n.options.CheckProvider(ctx); err != nil {
		return fmt.Errorf("checking the API server of cluster %q: %w", n.options.VirtualNode.Spec.ClusterID, err)
	}
	return nil
}

// recordPing reports changes. It publishes the status at once when the provider answers
// again: the lease alone does not make a Node ready.
func (n *Node) recordPing(ctx context.Context, err error) {
	n.mu.Lock()
	previous, isFirst := n.pingError, !n.pinged
	// An existing Node is kept through one failed ping.
	isOverdue := previous != nil || n.published == nil && n.server == nil
	n.pingError, n.pinged = err, true
	now := n.options.Now()
	if err == nil {
		n.answeredAt = now
	}
	silence := now.Sub(n.answeredAt)
	n.mu.Unlock()
	if n.options.OnOutage != nil && (err == nil || silence >= n.options.LeaseDuration/2) {
		n.options.OnOutage(err != nil)
	}
	if n.options.OnPing != nil {
		n.options.OnPing(err == nil)
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("node", n.name(), "remoteCluster", n.options.VirtualNode.Spec.ClusterID)
	if err != nil && isOverdue {
		n.report(ctx, ReasonUnreachable, "The Node is not registered or not renewed, because the provider cannot be reached: "+err.Error()+
			". Check that the provider runs and that the kubeconfig of spec.kubeconfigSecretRef leads to it.")
	}
	switch {
	case err != nil && previous == nil:
		log.Info("The provider cannot be reached, the node's lease is not renewed", "reason", err.Error())
	case err == nil && (previous != nil || isFirst):
		log.Info("The provider can be reached")
		n.clearReport(ReasonUnreachable)
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
