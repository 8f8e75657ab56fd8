// Package lease ends a leader election after the API server was restored from a backup: it compares the
// time of the stored renewal with that of the last one, which needs no further request. A restore between
// two renewals does not end the leader, nor does one end a process without leader election; their caches
// list again (package restore).
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The periods of the elections of managers: those of client-go, with fewer requests.
const (
	// Duration is how long the other replicas wait after a crash of the leader.
	Duration = 30 * time.Second
	// RenewDeadline is how long a leader tries to renew the lease before it stops.
	RenewDeadline = 20 * time.Second
	// RetryPeriod is how often the leader renews the lease, and how often a candidate reads it.
	RetryPeriod = 5 * time.Second
)

// ErrRestored is returned by Get if the lease is older than the last renewal of this process, or does
// not exist: the API server was restored from a backup, in which the lease may be absent. What the
// process remembers is newer than the server. The elector gives up the lease, so that the process
// ends and starts again.
var ErrRestored = errors.New("the API server was restored from a backup")

// precision is more than the precision of the times of a Lease, and less than RetryPeriod.
const precision = time.Millisecond

// checked is a lock that compares what it reads with what it wrote.
type checked struct {
	resourcelock.Interface
	written    resourcelock.LeaderElectionRecord
	isRestored bool
}

// Checked returns a lock whose Get fails with [ErrRestored]. Like the locks of client-go, it is used by
// one elector.
func Checked(lock resourcelock.Interface) resourcelock.Interface {
	return &checked{Interface: lock}
}

// Get implements resourcelock.Interface. The elector reads the lease before it acquires it and
// after a conflict.
func (c *checked) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := c.Interface.Get(ctx)
	if c.isRestored = c.isRestored || c.written.HolderIdentity == c.Identity() && c.isOlder(record, err); c.isRestored {
		return nil, nil, fmt.Errorf("reading the lease: %w", ErrRestored)
	}
	return record, raw, err //nolint:wrapcheck // The elector inspects it.
}

// isOlder reports whether the lease as it was read is older than the last renewal of this process.
func (c *checked) isOlder(record *resourcelock.LeaderElectionRecord, err error) bool {
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return record.HolderIdentity == c.Identity() && record.RenewTime.Add(precision).Before(c.written.RenewTime.Time)
}

// Create implements resourcelock.Interface.
func (c *checked) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.record(record, c.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (c *checked) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return c.record(record, c.Interface.Update(ctx, record))
}

func (c *checked) record(record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		c.written = record
	}
	return err
}
