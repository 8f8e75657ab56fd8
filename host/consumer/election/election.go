// Package election elects the leader among the virtual kubelets of one provider: the one that
// reflects the objects which belong to no single virtual node.
//
// A candidate that cannot reach the provider does not campaign. A leader that loses the
// provider releases the lease, so that a virtual kubelet that reaches it can take over. Until
// another does, it stays the leader: its requests fail, but its caches stay filled, so that
// an outage that all candidates see moves no leadership.
package election

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/consumer/link"
	"github.com/longshore-dev/longshore/host/kit/retry"
)

// LeaseName is the name of the lease in the tenant namespace. It is wire: virtual kubelets of
// the reference system compete for the same lease.
const LeaseName = "virtual-kubelet-leader-election"

const (
	// maxReleaseAttempts bounds how often a release is repeated after a conflict with a
	// renewal that was under way.
	maxReleaseAttempts = 3
	// maxFailures is how many checks of the provider in a row fail before the leader releases
	// its lease.
	maxFailures = 3
)

// Options configure an [Election]. Link, OnChange and Now are required.
type Options struct {
	// ElectorLock and Lock are two locks of the same lease with the same identity. The elector
	// uses the first. The Election reads and releases the lease with the second: a record
	// that was read through the elector's lock becomes the elector's own observation.
	// Without locks, the Election is won at once.
	ElectorLock, Lock resourcelock.Interface
	// LeaseDuration, RenewDeadline and RetryPeriod are those of client-go's leader election.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Link checks the provider.
	Link *link.Link
	// OnChange is called when the leadership is gained (true) or lost (false).
	OnChange func(leading bool)
	Now      func() time.Time
}

// Election campaigns for the leadership again each time it was lost.
//
// It leads from the moment at which its identity is written to the lease until it reads
// another one there or has not renewed it within RenewDeadline. client-go's elector reports
// only the latter, late and on another goroutine; therefore the lock is observed.
type Election struct {
	options Options
	elector *leaderelection.LeaderElector

	// log and the changes of leading belong to the goroutine of Run.
	log     logr.Logger
	leading atomic.Bool
}

// observedLock reports whether this process holds the lease, each time that is known.
type observedLock struct {
	resourcelock.Interface
	report func(held bool)
}

// Get implements resourcelock.Interface.
func (l *observedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.report(false)
	}
	return record, raw, err //nolint:wrapcheck // The elector inspects it.
}

// Create implements resourcelock.Interface.
func (l *observedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.observe(record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *observedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.observe(record, l.Interface.Update(ctx, record))
}

func (l *observedLock) observe(record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.report(record.HolderIdentity == l.Identity())
	}
	return err
}

// New returns an Election that sends nothing before Run.
func New(options Options) (*Election, error) {
	e := &Election{options: options}
	if options.ElectorLock == nil {
		return e, nil
	}
	var err error
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &observedLock{Interface: options.ElectorLock, report: e.setLeading}, Name: LeaseName,
		LeaseDuration: options.LeaseDuration, RenewDeadline: options.RenewDeadline, RetryPeriod: options.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		// The elector would try to release a lease that it could not renew before it reports
		// the loss. Run releases the lease after OnChange(false).
		ReleaseOnCancel: false,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the lease %s: %w", options.ElectorLock.Describe(), err)
	}
	return e, nil
}

// NewLock returns a lock of the lease in a tenant namespace. One request takes at most half
// of the renew deadline.
func NewLock(config *rest.Config, namespace, identity string, renewDeadline time.Duration) (resourcelock.Interface, error) {
	config = rest.CopyConfig(config)
	config.Timeout = renewDeadline / 2
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the lease %s/%s: %w", namespace, LeaseName, err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName},
		Client:    leases, LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, nil
}

// Run campaigns until the context ends, and then releases the lease. It is called once.
func (e *Election) Run(ctx context.Context) {
	e.log = ctrl.LoggerFrom(ctx)
	if e.elector == nil {
		e.setLeading(true)
		<-ctx.Done()
		e.setLeading(false)
		return
	}
	for isFirst := true; e.awaitProvider(ctx, isFirst); isFirst = false {
		e.campaign(ctx)
	}
	e.setLeading(false)
	if err := e.release(context.WithoutCancel(ctx)); err != nil {
		e.log.Error(err, "Releasing the lease failed, the next leader waits until it expires", "lease", e.options.Lock.Describe())
	}
}

// awaitProvider waits until the provider can be reached, or returns false when the context
// ends first. A leader releases the lease meanwhile, and campaigns again only after it has
// read the lease's holder.
func (e *Election) awaitProvider(ctx context.Context, isFirst bool) bool {
	knownAt, hadFailed := e.options.Now(), false
	for ctx.Err() == nil {
		isReachable, isHolderKnown := e.options.Link.Failures(ctx, true) == 0, true
		if e.leading.Load() {
			if isHolderKnown = e.checkHolder(ctx, !isReachable); isHolderKnown {
				knownAt = e.options.Now()
			} else if e.options.Now().Sub(knownAt) >= e.options.RenewDeadline {
				e.setLeading(false)
			}
		}
		wait := e.options.RetryPeriod
		switch {
		case !isReachable:
			hadFailed = true
		case !isHolderKnown:
		case hadFailed && !isFirst && !e.leading.Load():
			// If all candidates saw the outage, the previous leader sees its end within one
			// interval, and its caches are filled: let it go first.
			hadFailed, wait = false, wait+e.options.Link.Interval()
		default:
			return true
		}
		if !retry.Pause(ctx, wait) {
			return false
		}
	}
	return false
}

// checkHolder reads the lease of a leader and reports whether its holder is known. With
// release, it releases the lease if this process holds it.
func (e *Election) checkHolder(ctx context.Context, release bool) (isKnown bool) {
	record, _, err := e.options.Lock.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false
	case record.HolderIdentity == e.options.Lock.Identity():
		if release {
			e.log.Info("The provider cannot be reached, releasing the lease for another virtual kubelet", "lease", e.options.Lock.Describe())
			return e.writeReleased(ctx, record) == nil
		}
	case record.HolderIdentity != "":
		e.setLeading(false)
	}
	return true
}

// campaign runs the elector until the context ends, the lease is lost or the provider cannot
// be reached. A candidate that does not lead withdraws after the first check that fails.
func (e *Election) campaign(ctx context.Context) {
	ctx, withdraw := context.WithCancel(ctx)
	defer withdraw()
	var isUnreachable atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for retry.Pause(ctx, e.options.RetryPeriod) {
			failures := e.options.Link.Failures(ctx, false)
			if ctx.Err() == nil && (failures >= maxFailures || failures > 0 && !e.leading.Load()) {
				isUnreachable.Store(true)
				withdraw()
			}
		}
	})
	e.elector.Run(ctx)
	withdraw()
	group.Wait()
	if !isUnreachable.Load() {
		e.setLeading(false)
	}
}

func (e *Election) setLeading(leading bool) {
	if e.leading.Swap(leading) == leading {
		return
	}
	if leading {
		e.log.Info("Leading the virtual kubelets of the provider")
	} else {
		e.log.Info("Not leading the virtual kubelets of the provider any more")
	}
	e.options.OnChange(leading)
}

// release releases the lease if this process holds it, so that the next leader need not wait
// until it expires.
func (e *Election) release(ctx context.Context) error {
	var err error
	for range maxReleaseAttempts {
		var record *resourcelock.LeaderElectionRecord
		if record, _, err = e.options.Lock.Get(ctx); err != nil {
			break
		}
		if record.HolderIdentity != e.options.Lock.Identity() {
			return nil
		}
		if err = e.writeReleased(ctx, record); !apierrors.IsConflict(err) {
			break
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing the lease %s: %w", e.options.Lock.Describe(), err)
	}
	return nil
}

// writeReleased writes a record without holder over the one that was read last.
func (e *Election) writeReleased(ctx context.Context, record *resourcelock.LeaderElectionRecord) error {
	now := metav1.NewTime(e.options.Now())
	return e.options.Lock.Update(ctx, resourcelock.LeaderElectionRecord{ //nolint:wrapcheck // The callers wrap it or try again.
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now,
	})
}
