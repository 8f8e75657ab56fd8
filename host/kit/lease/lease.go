// Package lease reduces the requests of a leader election, and ends it after the API server was
// restored from a backup: it compares the time of the stored renewal with that of its last one, which
// needs no further request. A restore between two renewals (15 s) does not end the leader, nor does one
// end a process without leader election; their caches list again (package restore).
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The periods of the elections of managers. client-go's elector renews a lease as often as a
// candidate polls it; [Sparse] renews it every RenewPeriod instead. RenewPeriod and
// RenewDeadline together must be shorter than Duration: a leader that cannot renew the lease
// stops before another one starts.
const (
	// Duration is how long the other replicas wait after a crash of the leader.
	Duration = 30 * time.Second
	// RenewPeriod is how often the leader renews the lease.
	RenewPeriod = 15 * time.Second
	// RenewDeadline is how long a leader tries to renew the lease.
	RenewDeadline = 10 * time.Second
	// RetryPeriod is how often a candidate reads the lease, and how soon a failed renewal is
	// retried.
	RetryPeriod = 2 * time.Second
)

// ErrRestored is returned by Get if the lease is older than the last renewal of this process, or does
// not exist: the API server was restored from a backup, in which the lease may be absent. What the
// process remembers is newer than the server. The elector gives up the lease, so that the process
// ends and starts again.
var ErrRestored = errors.New("the API server was restored from a backup")

// precision is more than the precision of the times of a Lease, and less than any RenewPeriod.
const precision = time.Millisecond

// sparse is a lock that omits renewals.
type sparse struct {
	resourcelock.Interface
	period time.Duration
	now    func() time.Time

	renewedAt  time.Time
	written    resourcelock.LeaderElectionRecord
	isRestored bool
}

// Sparse returns a lock that omits a renewal if the previous one is younger than the period.
// Acquisitions, releases and reads are not omitted. Like the locks of client-go, it is used by
// one elector.
func Sparse(lock resourcelock.Interface, period time.Duration, now func() time.Time) resourcelock.Interface {
	return &sparse{Interface: lock, period: period, now: now}
}

// Get implements resourcelock.Interface. The elector reads the lease before it acquires it and
// after a conflict; the next update is sent.
func (s *sparse) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	s.renewedAt = time.Time{}
	record, raw, err := s.Interface.Get(ctx)
	if s.isRestored = s.isRestored || s.written.HolderIdentity == s.Identity() && s.isOlder(record, err); s.isRestored {
		return nil, nil, fmt.Errorf("reading the lease: %w", ErrRestored)
	}
	return record, raw, err //nolint:wrapcheck // The elector inspects it.
}

// isOlder reports whether the lease as it was read is older than the last renewal of this process.
func (s *sparse) isOlder(record *resourcelock.LeaderElectionRecord, err error) bool {
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return record.HolderIdentity == s.Identity() && record.RenewTime.Add(precision).Before(s.written.RenewTime.Time)
}

// Create implements resourcelock.Interface.
func (s *sparse) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return s.record(record, s.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (s *sparse) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	isRenewal := record.HolderIdentity == s.Identity() && record.HolderIdentity == s.written.HolderIdentity &&
		record.AcquireTime.Equal(&s.written.AcquireTime)
	if isRenewal && s.now().Sub(s.renewedAt) < s.period {
		return nil
	}
	return s.record(record, s.Interface.Update(ctx, record))
}

func (s *sparse) record(record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		s.renewedAt, s.written = s.now(), record
	} else {
		s.renewedAt = time.Time{}
	}
	return err
}
