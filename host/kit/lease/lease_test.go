package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/kit/lease"
)

var errUnavailable = errors.New("connection refused")

// countingLock counts the requests that reach the API server.
type countingLock struct {
	resourcelock.Interface
	updates int
	err     error
}

func (l *countingLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.updates++
	if l.err != nil {
		return l.err
	}
	return l.Interface.Update(ctx, record)
}

func newLock(identity string, clientset *fake.Clientset) *countingLock {
	return &countingLock{Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "manager"},
		Client:    clientset.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}}
}

func TestSparseOmitsRenewalsOnly(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC))
	counted := newLock("a", fake.NewClientset())
	lock := lease.Sparse(counted, 15*time.Second, clock.Now)
	acquired := metav1.NewTime(clock.Now())
	record := func() resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: "a", AcquireTime: acquired, RenewTime: metav1.NewTime(clock.Now()), LeaseDurationSeconds: 30}
	}
	renew := func(after time.Duration) error {
		clock.SetTime(clock.Now().Add(after))
		return lock.Update(t.Context(), record())
	}
	require.NoError(t, lock.Create(t.Context(), record()))
	for range 7 {
		require.NoError(t, renew(2*time.Second))
	}
	assert.Zero(t, counted.updates, "14 s after the acquisition")
	require.NoError(t, renew(time.Second))
	assert.Equal(t, 1, counted.updates, "15 s after the acquisition")

	counted.err = errUnavailable
	require.NoError(t, renew(14*time.Second))
	require.ErrorIs(t, renew(time.Second), errUnavailable)
	require.ErrorIs(t, renew(2*time.Second), errUnavailable, "a failed renewal is retried at once")
	counted.err = nil
	require.NoError(t, renew(2*time.Second))
	assert.Equal(t, 4, counted.updates)

	_, _, err := lock.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, renew(time.Second))
	assert.Equal(t, 5, counted.updates, "the update after a read is sent")

	require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}))
	assert.Equal(t, 6, counted.updates, "a release is sent")
	require.NoError(t, lock.Update(t.Context(), record()))
	assert.Equal(t, 7, counted.updates, "an acquisition is sent")
}

func TestALeaseThatIsOlderThanTheLastRenewalMeansARestoredServer(t *testing.T) {
	start := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	record := func(holder string, renewed time.Duration) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{
			HolderIdentity: holder, AcquireTime: metav1.NewTime(start), RenewTime: metav1.NewTime(start.Add(renewed)), LeaseDurationSeconds: 30,
		}
	}
	for name, tc := range map[string]struct {
		written, stored *resourcelock.LeaderElectionRecord
		// deleted means that the lease does not exist.
		deleted  bool
		restored bool
	}{
		"the lease does not exist":                         {written: ptr.To(record("a", time.Minute)), stored: ptr.To(record("a", time.Minute)), deleted: true, restored: true},
		"the lease never existed":                          {stored: ptr.To(record("a", 0)), deleted: true},
		"the lease was not acquired":                       {stored: ptr.To(record("a", 0))},
		"the lease is the last renewal":                    {written: ptr.To(record("a", time.Minute)), stored: ptr.To(record("a", time.Minute))},
		"the lease has microseconds only":                  {written: ptr.To(record("a", time.Minute+999)), stored: ptr.To(record("a", time.Minute))},
		"the lease is older than the last renewal":         {written: ptr.To(record("a", time.Minute)), stored: ptr.To(record("a", 0)), restored: true},
		"another replica has the lease":                    {written: ptr.To(record("a", time.Minute)), stored: ptr.To(record("b", 0))},
		"the lease was released and acquired by a replica": {written: ptr.To(record("", time.Minute)), stored: ptr.To(record("a", 0))},
	} {
		t.Run(name, func(t *testing.T) {
			clientset := fake.NewClientset()
			stored := newLock("a", clientset)
			lock := lease.Sparse(stored, 15*time.Second, func() time.Time { return start })
			require.NoError(t, stored.Create(t.Context(), record("a", 0)))
			if tc.written != nil {
				_, _, err := lock.Get(t.Context())
				require.NoError(t, err)
				require.NoError(t, lock.Update(t.Context(), *tc.written))
			}
			require.NoError(t, stored.Update(t.Context(), *tc.stored))
			if tc.deleted {
				require.NoError(t, clientset.CoordinationV1().Leases("longshore").Delete(t.Context(), "manager", metav1.DeleteOptions{}))
			}
			_, _, err := lock.Get(t.Context())
			if !tc.restored {
				require.NoError(t, client.IgnoreNotFound(err))
				return
			}
			require.ErrorIs(t, err, lease.ErrRestored)
			if tc.deleted {
				require.NoError(t, stored.Create(t.Context(), record("a", time.Hour)))
			}
			require.NoError(t, stored.Update(t.Context(), record("a", time.Hour)))
			_, _, err = lock.Get(t.Context())
			require.ErrorIs(t, err, lease.ErrRestored, "the caches of the process stay invalid")
		})
	}
}

// The leader stops before another replica may start, even if its last renewal is one period old.
func TestALeaderStopsBeforeTheLeaseExpires(t *testing.T) {
	assert.Less(t, lease.RenewPeriod+lease.RetryPeriod+lease.RenewDeadline, lease.Duration)
}

func TestElectorWithASparseLockHandsOver(t *testing.T) {
	clientset := fake.NewClientset()
	run := func(identity string) (leading <-chan struct{}, stop func()) {
		started, ended := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:          lease.Sparse(newLock(identity, clientset), time.Hour, time.Now),
			LeaseDuration: time.Hour, RenewDeadline: 30 * time.Minute, RetryPeriod: 10 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(started) }, OnStoppedLeading: func() {}},
		})
		require.NoError(t, err)
		go func() {
			defer close(ended)
			elector.Run(ctx)
		}()
		stop = func() {
			cancel()
			<-ended
		}
		t.Cleanup(stop)
		return started, stop
	}
	first, stop := run("a")
	<-first
	second, _ := run("b")
	stop()
	<-second
}
