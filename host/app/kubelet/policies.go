package kubelet

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/forge/local"
)

const (
	// startPoll is how often the conditions of the start are checked.
	startPoll = 20 * time.Millisecond
	// reasonPoliciesNotLoaded is the reason of the Node's condition Ready until policies are
	// loaded.
	reasonPoliciesNotLoaded = "PoliciesNotLoaded"
)

// policyLoader loads the policies beside the rest of the process.
type policyLoader struct{ policies.Lazy }

// await waits until the cluster's policies are bound, or returns false when the context ends
// first.
func (l *policyLoader) await(ctx context.Context) bool {
	isReady := func(context.Context) (bool, error) { return l.Ready() == nil, nil }
	return wait.PollUntilContextCancel(ctx, startPoll, true, isReady) == nil
}

// notReady is the Node's condition until the policies are bound.
func (l *policyLoader) notReady() *local.NotReady {
	if l.Ready() == nil {
		return nil
	}
	return &local.NotReady{Reason: reasonPoliciesNotLoaded, Message: "The virtual kubelet is loading policies; pods are offloaded afterwards"}
}
