package policies

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// trimPeriod is how long a module that is not asked keeps what makes it fast.
const trimPeriod = time.Minute

// trimmer has the engine give back memory that no policy needed for a while, in every
// replica.
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

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (trimmer) NeedLeaderElection() bool { return false }
