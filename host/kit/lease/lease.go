// Package lease reduces the requests of a leader election.
package lease

import (
	"context"
	"time"

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

// sparse is a lock that omits renewals.
type sparse struct {
	resourcelock.Interface
	period time.Duration
	now    func() time.Time

	renewedAt time.Time
	written   resourcelock.LeaderElectionRecord
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
	return s.Interface.Get(ctx) //nolint:wrapcheck // The elector inspects it.
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
