package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/longshore-dev/longshore/host/kit/lease"
)

func newLock(identity string, clientset *fake.Clientset) resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "longshore", Name: "manager"},
		Client:    clientset.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
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
			lock := lease.Checked(stored)
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

func TestElectorWithACheckedLockHandsOver(t *testing.T) {
	clientset := fake.NewClientset()
	run := func(identity string) (leading <-chan struct{}, stop func()) {
		started, ended := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:          lease.Checked(newLock(identity, clientset)),
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
