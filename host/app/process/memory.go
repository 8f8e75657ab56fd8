package process

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"k8s.io/utils/clock"
)

const (
	// gcPercent trades processor time for memory: most of the heap is scheme and caches,
	// which hardly change and which the default of 100 would let double.
	gcPercent = 50
	// settleTime is how long a process may take to fill its caches.
	settleTime = 10 * time.Second
)

// reduceGarbage lowers the garbage collector's target, unless the environment sets it.
func reduceGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// settler returns the memory that only the start needed to the operating system. The Go
// runtime would take minutes.
type settler struct {
	clock clock.Clock
	free  func()
}

// Start implements manager.Runnable.
func (s settler) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-s.clock.After(settleTime):
		s.free()
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: replicas that wait have
// started, too.
func (settler) NeedLeaderElection() bool { return false }
