// Package memory keeps the memory of processes low that cache objects of a cluster.
package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/utils/clock"
)

const (
	// gcPercent trades processor time for memory: most of the heap is scheme and caches,
	// which hardly change and which the default of 100 would let double.
	gcPercent = 50
	// period is the interval at which a Releaser looks at the heap.
	period = 10 * time.Second
	// worthShare and worthBytes are what a release must give back at least, of the heap and in bytes. A
	// process that allocates less in a period is at rest.
	worthShare, worthBytes = 0.1, 8 << 20
)

// ReduceGarbage lowers the garbage collector's target, unless the environment sets it.
func ReduceGarbage() {
	if os.Getenv("GOGC") == "" { //nolint:forbidigo // The Go runtime reads it, too.
		debug.SetGCPercent(gcPercent)
	}
}

// Releaser returns the memory that only the start or a burst needed to the operating system, when it
// is over. The Go runtime keeps what the next collections may need: after a burst, as much as the
// caches themselves.
type Releaser struct {
	clock   clock.Clock
	read    func() heap
	release func()
}

// heap are the bytes that were allocated since the start of the process, and those that were in use
// after the last collection.
type heap struct{ allocated, live float64 }

// NewReleaser returns a Releaser of this process.
func NewReleaser(c clock.Clock) *Releaser {
	return &Releaser{clock: c, read: readHeap, release: debug.FreeOSMemory}
}

func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return heap{allocated: float64(samples[0].Value.Uint64()), live: float64(samples[1].Value.Uint64())}
}

// Start implements manager.Runnable.
func (r *Releaser) Start(ctx context.Context) error {
	var last, released float64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.clock.After(period):
		}
		now := r.read()
		worth := max(now.live*worthShare, worthBytes)
		isQuiet := now.allocated-last < worth
		last = now.allocated
		if isQuiet && now.allocated-released >= worth {
			r.release()
			released = now.allocated
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: replicas that wait have
// started, too.
func (*Releaser) NeedLeaderElection() bool { return false }
