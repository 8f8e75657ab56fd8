package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	soon = 20 * time.Second
	tick = 2 * time.Millisecond
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// lock is a lease in memory. faults are answered, one by one, instead of the next updates.
type lock struct {
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord
	faults []error
	down   bool
}

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, nil, errors.New("connection refused")
	}
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(leases, ProviderLease)
	}
	record := *l.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *lock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return errors.New("connection refused")
	}
	if len(l.faults) > 0 {
		fault := l.faults[0]
		l.faults = l.faults[1:]
		return fault
	}
	l.record = &record
	return nil
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return "vk-milan-1" }
func (l *lock) Describe() string   { return "liqo-tenant-milan/" + ProviderLease }

// take makes somebody else the holder; updates that do not know of it conflict.
func (l *lock) take(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record = &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 3600}
	l.faults = append(l.faults, apierrors.NewConflict(leases, ProviderLease, errors.New("it was taken")))
}

func (l *lock) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

func (l *lock) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return "no lease"
	}
	return l.record.HolderIdentity
}

// history is what the election said.
type history struct {
	mu  sync.Mutex
	all []bool
}

func (h *history) lead(leading bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.all); n == 0 || h.all[n-1] != leading {
		h.all = append(h.all, leading)
	}
}

func (h *history) said() []bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]bool(nil), h.all...)
}

// stand runs an election; what it returns ends it.
func stand(t *testing.T, l resourcelock.Interface, h *history) (end func()) {
	t.Helper()
	e, err := newElection(&Options{
		VKLeaseDuration: 2 * time.Second, VKLeaseRenewInterval: time.Second, VKLeaseRetryPeriod: 10 * time.Millisecond,
	}, l, h.lead, time.Now)
	require.NoError(t, err)
	return standFor(t, e)
}

func standFor(t *testing.T, e *election) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(t.Context()), logr.Discard()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.run(ctx)
	}()
	end = func() {
		cancel()
		<-done
	}
	t.Cleanup(end)
	return end
}

func TestALostLeaseIsStoodForAgain(t *testing.T) {
	l, h := &lock{}, &history{}
	end := stand(t, l, h)
	require.Eventually(t, func() bool { return len(h.said()) == 1 }, soon, tick)
	assert.Equal(t, "vk-milan-1", l.holder())

	l.set(true)
	require.Eventually(t, func() bool { return len(h.said()) == 2 }, soon, tick, "who cannot renew does not lead")
	l.set(false)
	require.Eventually(t, func() bool { return len(h.said()) == 3 }, soon, tick)
	end()
	assert.Equal(t, []bool{true, false, true, false}, h.said())
	assert.Empty(t, l.holder(), "the lease is given back")
}

func TestAnElectionWithoutLeaseIsWon(t *testing.T) {
	h := &history{}
	end := stand(t, nil, h)
	require.Eventually(t, func() bool { return len(h.said()) == 1 }, soon, tick, "T14")
	end()
	assert.Equal(t, []bool{true, false}, h.said())
}

func TestWhoReadsAnotherNameOnTheLeaseDoesNotLead(t *testing.T) {
	l, h := &lock{}, &history{}
	e, err := newElection(&Options{VKLeaseDuration: 3 * time.Hour, VKLeaseRenewInterval: 2 * time.Hour, VKLeaseRetryPeriod: 10 * time.Millisecond}, l, h.lead, time.Now)
	require.NoError(t, err)
	standFor(t, e)
	require.Eventually(t, func() bool { return len(h.said()) == 1 }, soon, tick)
	// Somebody took it, as when this process stood still for longer than the lease.
	l.take("vk-milan-2")
	require.Eventually(t, func() bool { return len(h.said()) == 2 }, soon, tick, "at once, though it might try for two hours")
	// The lease ends, and the elector takes it back while it believes to lead all along.
	l.take("")
	require.Eventually(t, func() bool { return len(h.said()) == 3 }, soon, tick)
	assert.Equal(t, []bool{true, false, true}, h.said())
	assert.Equal(t, "vk-milan-1", l.holder())
}

func TestRelease(t *testing.T) {
	conflict := apierrors.NewConflict(leases, ProviderLease, errors.New("it was renewed"))
	held := func(by string) *resourcelock.LeaderElectionRecord {
		return &resourcelock.LeaderElectionRecord{HolderIdentity: by, LeaseDurationSeconds: 15, LeaderTransitions: 3}
	}
	for name, tc := range map[string]struct {
		lock       *lock
		wantHolder string
		wantErr    string
	}{
		"the own lease is given back":                  {&lock{record: held("vk-milan-1")}, "", ""},
		"another's is left alone":                      {&lock{record: held("vk-milan-2")}, "vk-milan-2", ""},
		"one that is gone needs nothing":               {&lock{}, "no lease", ""},
		"a renewal that was under way is waited for":   {&lock{record: held("vk-milan-1"), faults: []error{conflict, conflict}}, "", ""},
		"who insists on it keeps it until it ends":     {&lock{record: held("vk-milan-1"), faults: []error{conflict, conflict, conflict}}, "vk-milan-1", "releasing the lease liqo-tenant-milan/virtual-kubelet-leader-election"},
		"an API server that is away is not waited for": {&lock{record: held("vk-milan-1"), down: true}, "vk-milan-1", "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
			e, err := newElection(&Options{}, nil, func(bool) {}, func() time.Time { return now })
			require.NoError(t, err)
			e.lock = tc.lock
			err = e.release(t.Context())
			if tc.wantErr == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.wantErr)
			}
			assert.Equal(t, tc.wantHolder, tc.lock.holder())
			if tc.wantHolder == "" {
				assert.Equal(t, &resourcelock.LeaderElectionRecord{
					LeaseDurationSeconds: 1, LeaderTransitions: 3, AcquireTime: tc.lock.record.AcquireTime, RenewTime: tc.lock.record.RenewTime,
				}, tc.lock.record)
				assert.True(t, tc.lock.record.RenewTime.Equal(&tc.lock.record.AcquireTime))
				assert.True(t, tc.lock.record.RenewTime.Time.Equal(now))
			}
		})
	}
}
