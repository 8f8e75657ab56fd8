package policies

import (
	"context"
	"sync/atomic"

	"github.com/longshore-dev/longshore/host/policy/chain"
	"github.com/longshore-dev/longshore/host/policy/view"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Lazy loads the policies of a component beside the rest of its process. Without a compilation
// cache, compiling the built-in module takes seconds, in which leases must be renewed.
type Lazy struct {
	// Load loads the policies.
	Load func(context.Context) (*Policies, error)

	loaded atomic.Pointer[Policies]
}

var _ view.Evaluator = (*Lazy)(nil)

// Run loads the policies and returns.
func (l *Lazy) Run(ctx context.Context) error {
	loaded, err := l.Load(ctx)
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
func (l *Lazy) Ready() error {
	if loaded := l.loaded.Load(); loaded != nil {
		return loaded.Ready()
	}
	return chain.ErrNotLoaded
}

// Evaluate implements view.Evaluator.
func (l *Lazy) Evaluate(ctx context.Context, in chain.Input) (*chain.Result, error) {
	if loaded := l.loaded.Load(); loaded != nil {
		return loaded.Chains().Evaluate(ctx, in)
	}
	return nil, chain.ErrNotLoaded
}

// HasBindings reports whether a policy may be bound to an extension point; package view uses it.
func (l *Lazy) HasBindings(point contract.Point) bool {
	loaded := l.loaded.Load()
	return loaded == nil || loaded.Chains().HasBindings(point)
}

// SeesChange reports whether a policy would see a change of an object; package view uses it.
func (l *Lazy) SeesChange(ctx context.Context, before, after chain.Input) (bool, error) {
	if loaded := l.loaded.Load(); loaded != nil {
		return loaded.Chains().SeesChange(ctx, before, after)
	}
	return false, chain.ErrNotLoaded
}

// OwnerReplaced makes the component report again ([policysource.Source.OwnerReplaced]).
func (l *Lazy) OwnerReplaced() {
	if loaded := l.loaded.Load(); loaded != nil {
		loaded.source.OwnerReplaced()
	}
}

// Close closes the policies.
func (l *Lazy) Close(ctx context.Context) error {
	if loaded := l.loaded.Load(); loaded != nil {
		return loaded.Close(ctx)
	}
	return nil
}
