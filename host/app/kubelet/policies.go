package kubelet

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/forge/local"
	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

const (
	// startPoll is how often the conditions of the start are checked.
	startPoll = 20 * time.Millisecond
	// trimDelay is how long after the start memory is returned that only the start needed.
	trimDelay = 10 * time.Second
	// reasonPoliciesNotLoaded is the reason of the Node's condition Ready until policies are
	// loaded.
	reasonPoliciesNotLoaded = "PoliciesNotLoaded"
)

// policyLoader loads the policies beside the rest of the process. Without a compilation
// cache, compiling the built-in module takes seconds, in which leases must be renewed.
type policyLoader struct {
	load   func(context.Context) (*policies.Policies, error)
	loaded atomic.Pointer[policies.Policies]
}

var _ view.Evaluator = (*policyLoader)(nil)

// run loads the policies and returns.
func (l *policyLoader) run(ctx context.Context) error {
	loaded, err := l.load(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	l.loaded.Store(loaded)
	return nil
}

// Ready returns an error until the cluster's policies are bound.
func (l *policyLoader) Ready() error {
	if loaded := l.loaded.Load(); loaded != nil {
		return loaded.Ready()
	}
	return chain.ErrNotLoaded
}

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

// Evaluate implements view.Evaluator.
func (l *policyLoader) Evaluate(ctx context.Context, in chain.Input) (*chain.Result, error) {
	if loaded := l.loaded.Load(); loaded != nil {
		return loaded.Chains().Evaluate(ctx, in)
	}
	return nil, chain.ErrNotLoaded
}

// HasBindings reports whether a policy may be bound to an extension point; package view uses it.
func (l *policyLoader) HasBindings(point contract.Point) bool {
	loaded := l.loaded.Load()
	return loaded == nil || loaded.Chains().HasBindings(point)
}

// trim returns memory that only the start needed; the runtime does so within minutes.
func (l *policyLoader) trim() {
	if loaded := l.loaded.Load(); loaded != nil {
		loaded.Trim()
	}
	debug.FreeOSMemory()
}

func (l *policyLoader) close(ctx context.Context) error {
	if loaded := l.loaded.Load(); loaded != nil {
		return loaded.Close(ctx)
	}
	return nil
}
