package policies

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// trimPeriod is how long a module that is not called keeps its instances.
const trimPeriod = time.Minute

// trimmer releases memory of the engine that no policy has needed for a while.
type trimmer struct {
	engine interface{ Trim() }
	clock  clock.WithTicker
}

// Start implements manager.Runnable.
func (t trimmer) Start(ctx context.Context) error {
	ticker := t.clock.NewTicker(trimPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			t.engine.Trim()
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica trims.
func (trimmer) NeedLeaderElection() bool { return false }
