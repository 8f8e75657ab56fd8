package kubelet

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

	"github.com/longshore-dev/longshore/host/kit/retry"
)

// ProviderLease is the lease, in the tenant namespace, whose holder is the leader of all
// virtual kubelets of one provider (wire 5.7): the one that reflects what is
// not one virtual node's own. Its name is wire: a virtual kubelet of the reference
// system heeds it too.
const ProviderLease = "virtual-kubelet-leader-election"

// releaseTries bounds how often the lease is given back: a renewal that was under way may
// come in between.
const releaseTries = 3

// election stands for the leadership among the virtual kubelets of the provider, and
// stands again whenever it was lost: what is lost is a right to send, not a reason to
// end.
//
// It leads from the moment at which its name is written to the lease until it reads
// another's there, or could not renew it in time. client-go's elector tells only of the
// latter, and of the former late and on another goroutine; so the lock itself tells.
//
// Who cannot reach the provider does not stand. One that leads and cannot reach it any more
// gives the lease back, for whoever can; until somebody takes it, it goes on as the leader,
// who sends nothing because nothing arrives: an outage that all see moves nothing, and its
// end finds every cache filled (ADR 43).
type election struct {
	elector *leaderelection.LeaderElector
	// retry is the pause between two tries, deadline how long a leader may not know whether it
	// still is one.
	retry, deadline time.Duration
	// aside reads the lease, and gives it back, beside the elector. It is a lock of its own,
	// and nil when the lease is switched off: then this one leads (T14). What the elector's
	// lock has read, the elector takes for its own picture and may overwrite.
	aside resourcelock.Interface
	link  *link
	lead  func(bool)
	now   func() time.Time

	// log belongs to run, and leading is altered from there only.
	log     logr.Logger
	leading atomic.Bool
}

// toldLock tells whether this one holds the lease, as soon as that is known.
type toldLock struct {
	resourcelock.Interface
	tell func(held bool)
}

// Get implements resourcelock.Interface.
func (l *toldLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.tell(false)
	}
	return record, raw, err //nolint:wrapcheck // The elector looks into it.
}

// Create implements resourcelock.Interface.
func (l *toldLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.told(record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *toldLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.told(record, l.Interface.Update(ctx, record))
}

func (l *toldLock) told(record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.tell(record.HolderIdentity == l.Identity())
	}
	return err
}

// newElection composes the election among those who know the lock. Without lease, both
// locks are nil.
func newElection(o *Options, lock, aside resourcelock.Interface, provider *link, lead func(bool), now func() time.Time) (*election, error) {
	e := &election{aside: aside, link: provider, lead: lead, now: now}
	if lock == nil {
		return e, nil
	}
	e.retry, e.deadline = o.VKLeaseRetryPeriod, o.VKLeaseRenewInterval
	var err error
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &toldLock{Interface: lock, tell: e.tell}, Name: ProviderLease,
		LeaseDuration: o.VKLeaseDuration, RenewDeadline: e.deadline, RetryPeriod: e.retry,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		// The elector would also try to release what it could not renew, and say only
		// afterwards that it is lost. Here it is lost first.
		ReleaseOnCancel: false,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the lease %s: %w", lock.Describe(), err)
	}
	return e, nil
}

// providerLock is the lock of the provider's virtual kubelets, nil without lease.
func (o *Options) providerLock(home *rest.Config) (resourcelock.Interface, error) {
	if !o.VKLeaseEnabled {
		return nil, nil
	}
	identity, err := o.replica()
	if err != nil {
		return nil, err
	}
	config := protobuf(home)
	// No single request uses up the time within which the lease is to be renewed.
	config.Timeout = o.VKLeaseRenewInterval / 2
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the lease %s/%s: %w", o.TenantNamespace, ProviderLease, err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: o.TenantNamespace, Name: ProviderLease},
		Client:    leases, LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, nil
}

// run stands for election until the context ends, and then gives the lease back.
func (e *election) run(ctx context.Context) {
	e.log = ctrl.LoggerFrom(ctx)
	if e.aside == nil {
		e.tell(true)
		<-ctx.Done()
		e.tell(false)
		return
	}
	for stood := false; e.await(ctx, stood); stood = true {
		e.stand(ctx)
	}
	e.tell(false)
	if err := e.release(context.WithoutCancel(ctx)); err != nil {
		e.log.Error(err, "Giving the lease back failed, the next leader waits until it ends", "lease", e.aside.Describe())
	}
}

// await waits until the provider can be reached from here, or reports false when the context
// ends first. One that leads offers the lease meanwhile, and does not go on before it knows
// that nobody has taken it. stood says that this one has stood before.
func (e *election) await(ctx context.Context, stood bool) bool {
	seen, failed := e.now(), false
	for ctx.Err() == nil {
		reached, known := e.link.look(ctx, true) == 0, true
		if e.leading.Load() {
			if known = e.offer(ctx, !reached); known {
				seen = e.now()
			} else if e.now().Sub(seen) >= e.deadline {
				e.tell(false)
			}
		}
		wait := e.retry
		switch {
		case !reached:
			failed = true
		case !known:
		case failed && stood && !e.leading.Load():
			// The outage may have been everybody's. Who led before sees its end within an
			// interval, and has its caches still.
			failed, wait = false, wait+e.link.interval
		default:
			return true
		}
		if !retry.Pause(ctx, wait) {
			return false
		}
	}
	return false
}

// offer gives the lease back while the provider is away, and reports whether it is known who
// has it: another, who then leads, or nobody else.
func (e *election) offer(ctx context.Context, away bool) (known bool) {
	record, _, err := e.aside.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false
	case record.HolderIdentity == e.aside.Identity():
		if away {
			e.log.Info("The provider cannot be reached from here, offering the leadership to another virtual kubelet", "lease", e.aside.Describe())
			// What fails, a conflict for one, is tried again in the next round.
			return e.giveBack(ctx, record) == nil
		}
	case record.HolderIdentity != "":
		e.tell(false)
	}
	return true
}

// stand stands for election, and leads when elected, until the context ends, the lease is
// lost, or the provider cannot be reached from here any more: for one that does not lead,
// that is after the first look that fails.
func (e *election) stand(ctx context.Context) {
	ctx, withdraw := context.WithCancel(ctx)
	defer withdraw()
	var away atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for retry.Pause(ctx, e.retry) {
			failed := e.link.look(ctx, false)
			if ctx.Err() == nil && (failed >= patience || failed > 0 && !e.leading.Load()) {
				away.Store(true)
				withdraw()
			}
		}
	})
	e.elector.Run(ctx)
	withdraw()
	group.Wait()
	if !away.Load() {
		e.tell(false)
	}
}

// tell passes on what is known of the leadership.
func (e *election) tell(leading bool) {
	if e.leading.Swap(leading) == leading {
		return
	}
	if leading {
		e.log.Info("Leading the virtual kubelets of the provider")
	} else {
		e.log.Info("Not leading the virtual kubelets of the provider any more")
	}
	e.lead(leading)
}

// release gives the lease back, if it is ours: the next one need not wait for its end.
func (e *election) release(ctx context.Context) error {
	var err error
	for range releaseTries {
		var record *resourcelock.LeaderElectionRecord
		if record, _, err = e.aside.Get(ctx); err != nil {
			break
		}
		if record.HolderIdentity != e.aside.Identity() {
			return nil
		}
		if err = e.giveBack(ctx, record); !apierrors.IsConflict(err) {
			break
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing the lease %s: %w", e.aside.Describe(), err)
	}
	return nil
}

// giveBack writes to the lease, as it was read just now, that nobody has it.
func (e *election) giveBack(ctx context.Context, record *resourcelock.LeaderElectionRecord) error {
	now := metav1.NewTime(e.now())
	return e.aside.Update(ctx, resourcelock.LeaderElectionRecord{ //nolint:wrapcheck // Told by the caller, or tried again.
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now,
	})
}
