package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

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
type election struct {
	// elector and lock are nil when the lease is switched off: then this one leads (T14).
	elector *leaderelection.LeaderElector
	lock    resourcelock.Interface
	lead    func(bool)
	now     func() time.Time

	mu sync.Mutex
}

// newElection composes the election among those who know the lock. Without lease, the
// lock is nil.
func newElection(o *Options, lock resourcelock.Interface, lead func(bool), now func() time.Time) (*election, error) {
	e := &election{lock: lock, lead: lead, now: now}
	if lock == nil {
		return e, nil
	}
	var err error
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: ProviderLease,
		LeaseDuration: o.VKLeaseDuration, RenewDeadline: o.VKLeaseRenewInterval, RetryPeriod: o.VKLeaseRetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: e.won, OnStoppedLeading: e.lost},
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
	if e.elector == nil {
		e.lead(true)
		<-ctx.Done()
		e.lead(false)
		return
	}
	log := ctrl.LoggerFrom(ctx)
	for ctx.Err() == nil {
		e.elector.Run(ctx)
		log.Info("Not leading the virtual kubelets of the provider any more", "lease", e.lock.Describe())
	}
	if err := e.release(context.WithoutCancel(ctx)); err != nil {
		log.Error(err, "Giving the lease back failed, the next leader waits until it ends", "lease", e.lock.Describe())
	}
}

// won is called beside run, and maybe after the leadership that it tells of was lost;
// then its context has ended.
func (e *election) won(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	ctrl.LoggerFrom(ctx).Info("Leading the virtual kubelets of the provider", "lease", e.lock.Describe())
	e.lead(true)
}

func (e *election) lost() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lead(false)
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
