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
	soon = time.Minute
	tick = 2 * time.Millisecond
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// lock is a lease in memory. faults are answered, one by one, instead of the next updates.
type lock struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
	faults  []error
	down    bool
}

// seenLock is a lock as one client sees it: what it writes conflicts when it has not seen what
// another has written.
type seenLock struct {
	*lock
	identity string
	seen     int
}

func (v *seenLock) Identity() string { return v.identity }

func (v *seenLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	v.mu.Lock()
	version := v.version
	v.mu.Unlock()
	record, raw, err := v.lock.Get(ctx)
	if err == nil {
		v.seen = version
	}
	return record, raw, err
}

func (v *seenLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return v.Update(ctx, record)
}

func (v *seenLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	version, err := v.write(v.seen, record)
	if err == nil {
		v.seen = version
	}
	return err
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
	_, err := l.write(-1, record)
	return err
}

// write replaces the record if it is of a version, or of any for -1.
func (l *lock) write(version int, record resourcelock.LeaderElectionRecord) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return 0, errors.New("connection refused")
	}
	if len(l.faults) > 0 {
		fault := l.faults[0]
		l.faults = l.faults[1:]
		return 0, fault
	}
	if version >= 0 && version != l.version {
		return 0, apierrors.NewConflict(leases, ProviderLease, errors.New("it was taken"))
	}
	l.record = &record
	l.version++
	return l.version, nil
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return "vk-milan-1" }
func (l *lock) Describe() string   { return "liqo-tenant-milan/" + ProviderLease }

// take makes somebody else the holder; updates that do not know of it conflict.
func (l *lock) take(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record = &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 3600}
	l.version++
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
func stand(t *testing.T, l *lock, h *history) (end func()) {
	t.Helper()
	return standFor(t, candidate(t, "vk-milan-1", time.Second, l, h, newRoad(nil).link))
}

// candidate returns an election in which much happens within a second; deadline is how long
// it tries to renew the lease.
func candidate(t *testing.T, identity string, deadline time.Duration, l *lock, h *history, provider *link) *election {
	t.Helper()
	e, err := newElection(&Options{
		VKLeaseDuration: 2 * deadline, VKLeaseRenewInterval: deadline, VKLeaseRetryPeriod: 10 * time.Millisecond,
	}, &seenLock{lock: l, identity: identity}, &seenLock{lock: l, identity: identity}, provider, h.lead, time.Now)
	require.NoError(t, err)
	return e
}

// road is the way to a provider that is cut, and repaired.
type road struct {
	link *link
	mu   sync.Mutex
	err  error
	asks int
}

func newRoad(err error) *road {
	r := &road{link: newLink(&Options{NodePingInterval: time.Nanosecond, NodePingTimeout: time.Second}, time.Now), err: err}
	r.link.connect(func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asks++
		return r.err
	})
	return r
}

func (r *road) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.asks = err, 0
}

// awaitAsks waits until the provider was asked so often since the last change.
func (r *road) awaitAsks(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.asks >= n
	}, soon, tick)
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
	e, err := newElection(&Options{}, nil, nil, newRoad(errors.New("no route")).link, h.lead, time.Now)
	require.NoError(t, err)
	end := standFor(t, e)
	require.Eventually(t, func() bool { return len(h.said()) == 1 }, soon, tick, "T14")
	end()
	assert.Equal(t, []bool{true, false}, h.said())
}

func TestWhoReadsAnotherNameOnTheLeaseDoesNotLead(t *testing.T) {
	l, h := &lock{}, &history{}
	e, err := newElection(&Options{VKLeaseDuration: 3 * time.Hour, VKLeaseRenewInterval: 2 * time.Hour, VKLeaseRetryPeriod: 10 * time.Millisecond},
		&seenLock{lock: l, identity: "vk-milan-1"}, &seenLock{lock: l, identity: "vk-milan-1"}, newRoad(nil).link, h.lead, time.Now)
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
			e, err := newElection(&Options{}, nil, nil, nil, func(bool) {}, func() time.Time { return now })
			require.NoError(t, err)
			e.aside = tc.lock
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

var errCut = errors.New("no route to host")

func TestALeaderThatCannotReachTheProviderOffersItsLease(t *testing.T) {
	l, h, way := &lock{}, &history{}, newRoad(nil)
	standFor(t, candidate(t, "vk-milan-1", time.Minute, l, h, way.link))
	require.Eventually(t, func() bool { return l.holder() == "vk-milan-1" }, soon, tick)

	way.set(errCut)
	require.Eventually(t, func() bool { return l.holder() == "" }, soon, tick, "another may have it")
	way.awaitAsks(t, 10)
	assert.Empty(t, l.holder(), "it is not taken back")
	assert.Equal(t, []bool{true}, h.said(), "nobody wants it: what is held here stays")

	way.set(nil)
	require.Eventually(t, func() bool { return l.holder() == "vk-milan-1" }, soon, tick)
	assert.Equal(t, []bool{true}, h.said(), "an outage that all see changes nothing")

	way.set(errCut)
	require.Eventually(t, func() bool { return l.holder() == "" }, soon, tick)
	l.take("vk-milan-2")
	require.Eventually(t, func() bool { return len(h.said()) == 2 }, soon, tick, "who reaches the provider leads")
	way.set(nil)
	way.awaitAsks(t, 10)
	assert.Equal(t, "vk-milan-2", l.holder(), "and goes on")
	assert.Equal(t, []bool{true, false}, h.said())
}

func TestWhoCannotReachTheProviderDoesNotStand(t *testing.T) {
	l, h, way := &lock{}, &history{}, newRoad(errCut)
	standFor(t, candidate(t, "vk-milan-1", time.Minute, l, h, way.link))
	way.awaitAsks(t, 10)
	assert.Equal(t, "no lease", l.holder())
	way.set(nil)
	require.Eventually(t, func() bool { return len(h.said()) == 1 }, soon, tick)

	// One that follows withdraws at the first look that fails: an outage that all see moves
	// nothing.
	follower, said := newRoad(nil), &history{}
	standFor(t, candidate(t, "vk-milan-2", time.Minute, l, said, follower.link))
	follower.awaitAsks(t, 3)
	follower.set(errCut)
	follower.awaitAsks(t, 3)
	way.set(errCut)
	require.Eventually(t, func() bool { return l.holder() == "" }, soon, tick)
	follower.set(errCut)
	follower.awaitAsks(t, 20)
	assert.Empty(t, l.holder())
	assert.Equal(t, []bool{true}, h.said())
	assert.Empty(t, said.said())

	follower.set(nil)
	require.Eventually(t, func() bool { return len(h.said()) == 2 && len(said.said()) == 1 }, soon, tick)
	assert.Equal(t, "vk-milan-2", l.holder())
}

func TestOneLookThatFailsCostsNoLeadership(t *testing.T) {
	l, h, way := &lock{}, &history{}, newRoad(nil)
	standFor(t, candidate(t, "vk-milan-1", time.Minute, l, h, way.link))
	require.Eventually(t, func() bool { return l.holder() == "vk-milan-1" }, soon, tick)
	transitions := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.record.LeaderTransitions
	}
	before := transitions()
	var mu sync.Mutex
	asks := 0
	way.link.connect(func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		asks++
		if asks%patience != 0 {
			return errCut
		}
		return nil
	})
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return asks > 10*patience
	}, soon, tick)
	assert.Equal(t, before, transitions())
	assert.Equal(t, "vk-milan-1", l.holder())
	assert.Equal(t, []bool{true}, h.said())
}

func TestALeaderThatReachesNeitherClusterStops(t *testing.T) {
	l, h, way := &lock{}, &history{}, newRoad(nil)
	standFor(t, candidate(t, "vk-milan-1", time.Second, l, h, way.link))
	require.Eventually(t, func() bool { return len(h.said()) == 1 }, soon, tick)
	way.set(errCut)
	require.Eventually(t, func() bool { return l.holder() == "" }, soon, tick)
	l.set(true)
	require.Eventually(t, func() bool { return len(h.said()) == 2 }, soon, tick, "another may lead, and it would not know")
	l.set(false)
	way.set(nil)
	require.Eventually(t, func() bool { return len(h.said()) == 3 }, soon, tick)
}
