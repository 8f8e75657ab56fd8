package kubelet

import (
	"context"

	"github.com/longshore-dev/longshore/host/app/policies"
)

// HoldPolicies delays the loading of policies until a channel is closed, as compiling them
// without a cache does.
func (a *App) HoldPolicies(until <-chan struct{}) {
	load := a.policies.Load
	a.policies.Load = func(ctx context.Context) (*policies.Policies, error) {
		select {
		case <-until:
			return load(ctx)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
