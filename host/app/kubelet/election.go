package kubelet

import (
	"context"
	"fmt"
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
)

// ProviderLease is the lease, in the tenant namespace, whose holder is the leader of all
// virtual kubelets of one provider (offloading.md 5.7): the one that reflects what is
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
type election struct {
	// elector and lock are nil when the lease is switched off: then this one leads (T14).
	elector *leaderelection.LeaderElector
	lock    resourcelock.Interface
	lead    func(bool)
	now     func() time.Time

	// log and leading belong to run, and to what the elector calls from there.
	log     logr.Logger
	leading bool
}

// toldLock tells whether this one holds the lease, as soon as that is known.
type toldLock struct {
	resourcelock.Interface
	tell func(held bool)
}

// Get implements resourcelock.Interface.
func (l *toldLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() {
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

// newElection composes the election among those who know the lock. Without lease, the
// lock is nil.
func newElection(o *Options, lock resourcelock.Interface, lead func(bool), now func() time.Time) (*election, error) {
	e := &election{lead: lead, now: now}
	if lock == nil {
		return e, nil
	}
	e.lock = &toldLock{Interface: lock, tell: e.tell}
	var err error
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, Name: ProviderLease,
		LeaseDuration: o.VKLeaseDuration, RenewDeadline: o.VKLeaseRenewInterval, RetryPeriod: o.VKLeaseRetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() { e.tell(false) }},
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
		return nil, nil //nolint:nilnil // There is none.
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
	if e.elector == nil {
		e.tell(true)
		<-ctx.Done()
		e.tell(false)
		return
	}
	for ctx.Err() == nil {
		e.elector.Run(ctx)
	}
	if err := e.release(context.WithoutCancel(ctx)); err != nil {
		e.log.Error(err, "Giving the lease back failed, the next leader waits until it ends", "lease", e.lock.Describe())
	}
}

// tell passes on what is known of the leadership.
func (e *election) tell(leading bool) {
	if e.leading == leading {
		return
	}
	e.leading = leading
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
		if record, _, err = e.lock.Get(ctx); err != nil {
			break
		}
		if record.HolderIdentity != e.lock.Identity() {
			return nil
		}
		now := metav1.NewTime(e.now())
		err = e.lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now,
		})
		if !apierrors.IsConflict(err) {
			break
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing the lease %s: %w", e.lock.Describe(), err)
	}
	return nil
}
