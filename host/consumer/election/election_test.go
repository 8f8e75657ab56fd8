package election

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/longshore-dev/longshore/host/consumer/link"
)

const (
	soon = time.Minute
	tick = 2 * time.Millisecond
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// lock is a lease in memory. Each of faults fails one update.
type lock struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
	faults  []error
	down    bool
}

// clientLock is one client's view of a lock: an update conflicts unless the client has read
// the current version.
type clientLock struct {
	*lock
	identity string
	seen     int
}

func (v *clientLock) Identity() string { return v.identity }

func (v *clientLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	v.mu.Lock()
	version := v.version
	v.mu.Unlock()
	record, raw, err := v.lock.Get(ctx)
	if err == nil {
		v.seen = version
	}
	return record, raw, err
}

func (v *clientLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return v.Update(ctx, record)
}

func (v *clientLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
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
		return nil, nil, syscall.ECONNREFUSED
	}
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(leases, LeaseName)
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

// write replaces the record of a version, or of any version for -1.
func (l *lock) write(version int, record resourcelock.LeaderElectionRecord) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return 0, syscall.ECONNREFUSED
	}
	if len(l.faults) > 0 {
		fault := l.faults[0]
		l.faults = l.faults[1:]
		return 0, fault
	}
	if version >= 0 && version != l.version {
		return 0, apierrors.NewConflict(leases, LeaseName, errors.New("updated by another client"))
	}
	l.record = &record
	l.version++
	return l.version, nil
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return "vk-milan-1" }
func (l *lock) Describe() string   { return "liqo-tenant-milan/" + LeaseName }

// setHolder makes another identity the holder. Updates of the previous version conflict.
func (l *lock) setHolder(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record = &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 3600}
	l.version++
}

func (l *lock) setDown(down bool) {
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

// history records the changes of the leadership.
type history struct {
	mu  sync.Mutex
	all []bool
}

func (h *history) record(leading bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.all); n == 0 || h.all[n-1] != leading {
		h.all = append(h.all, leading)
	}
}

func (h *history) changes() []bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]bool(nil), h.all...)
}

// awaitLeading waits until the last change is the given one.
func (h *history) awaitLeading(t *testing.T, leading bool, reason string) {
	t.Helper()
	require.Eventually(t, func() bool {
		changes := h.changes()
		return len(changes) > 0 && changes[len(changes)-1] == leading
	}, soon, tick, reason)
}

// shortDeadline is a renew deadline that a test waits for. A busy machine may miss it at any time: such a
// test asserts what follows from what it does, and not the number of changes.
const shortDeadline = time.Second

// newCandidate returns an election with a short retry period.
func newCandidate(t *testing.T, identity string, renewDeadline time.Duration, l *lock, h *history, provider *link.Link) *Election {
	t.Helper()
	e, err := New(Options{
		LeaseDuration: 2 * renewDeadline, RenewDeadline: renewDeadline, RetryPeriod: 10 * time.Millisecond,
		ElectorLock: &clientLock{lock: l, identity: identity}, Lock: &clientLock{lock: l, identity: identity},
		Link: provider, OnChange: h.record, Now: time.Now,
	})
	require.NoError(t, err)
	return e
}

// provider is a provider whose probe returns err.
type provider struct {
	link   *link.Link
	mu     sync.Mutex
	err    error
	probes int
}

func newProvider(err error) *provider {
	p := &provider{link: link.New(time.Nanosecond, time.Second, time.Now), err: err}
	p.link.Connect(func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.probes++
		return p.err
	}, nil)
	return p
}

func (p *provider) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.probes = err, 0
}

// awaitProbes waits for n probes since the last call of set.
func (p *provider) awaitProbes(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.probes >= n
	}, soon, tick)
}

func run(t *testing.T, e *Election) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(t.Context()), logr.Discard()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	end = func() {
		cancel()
		<-done
	}
	t.Cleanup(end)
	return end
}

func TestElectionIsRepeatedAfterALoss(t *testing.T) {
	l, h := &lock{}, &history{}
	end := run(t, newCandidate(t, "vk-milan-1", shortDeadline, l, h, newProvider(nil).link))
	h.awaitLeading(t, true, "a free lease is acquired")
	assert.Equal(t, "vk-milan-1", l.holder())

	l.setDown(true)
	h.awaitLeading(t, false, "a lease that cannot be renewed is lost")
	l.setDown(false)
	h.awaitLeading(t, true, "and acquired again")
	end()
	h.awaitLeading(t, false, "the leadership ends")
	assert.Empty(t, l.holder(), "the lease is released")
}

func TestElectionWithoutLeaseIsWon(t *testing.T) {
	h := &history{}
	e, err := New(Options{Link: newProvider(errUnreachable).link, OnChange: h.record, Now: time.Now})
	require.NoError(t, err)
	end := run(t, e)
	require.Eventually(t, func() bool { return len(h.changes()) == 1 }, soon, tick, "T14")
	end()
	assert.Equal(t, []bool{true, false}, h.changes())
}

func TestLeaderStopsWhenItReadsAnotherHolder(t *testing.T) {
	l, h := &lock{}, &history{}
	run(t, newCandidate(t, "vk-milan-1", time.Hour, l, h, newProvider(nil).link))
	require.Eventually(t, func() bool { return len(h.changes()) == 1 }, soon, tick)
	// Another identity takes the lease, as after this process was suspended.
	l.setHolder("vk-milan-2")
	require.Eventually(t, func() bool { return len(h.changes()) == 2 }, soon, tick, "at once, long before the renew deadline")
	// The elector has not noticed the loss and renews the released lease.
	l.setHolder("")
	require.Eventually(t, func() bool { return len(h.changes()) == 3 }, soon, tick)
	assert.Equal(t, []bool{true, false, true}, h.changes())
	assert.Equal(t, "vk-milan-1", l.holder())
}

func TestRelease(t *testing.T) {
	conflict := apierrors.NewConflict(leases, LeaseName, errors.New("the lease was renewed"))
	heldBy := func(identity string) *resourcelock.LeaderElectionRecord {
		return &resourcelock.LeaderElectionRecord{HolderIdentity: identity, LeaseDurationSeconds: 15, LeaderTransitions: 3}
	}
	for name, tc := range map[string]struct {
		lock       *lock
		wantHolder string
		wantErr    error
	}{
		"own lease is released":              {&lock{record: heldBy("vk-milan-1")}, "", nil},
		"lease of another identity is kept":  {&lock{record: heldBy("vk-milan-2")}, "vk-milan-2", nil},
		"missing lease is not an error":      {&lock{}, "no lease", nil},
		"conflict is retried":                {&lock{record: heldBy("vk-milan-1"), faults: []error{conflict, conflict}}, "", nil},
		"third conflict is an error":         {&lock{record: heldBy("vk-milan-1"), faults: []error{conflict, conflict, conflict}}, "vk-milan-1", conflict},
		"unreachable API server is an error": {&lock{record: heldBy("vk-milan-1"), down: true}, "vk-milan-1", syscall.ECONNREFUSED},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
			e, err := New(Options{Lock: tc.lock, OnChange: func(bool) {}, Now: func() time.Time { return now }})
			require.NoError(t, err)
			err = e.release(t.Context())
			if tc.wantErr == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, tc.wantErr)
				require.ErrorContains(t, err, "releasing the lease liqo-tenant-milan/virtual-kubelet-leader-election")
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

var errUnreachable = errors.New("no route to host")

func TestLeaderReleasesTheLeaseWhenItLosesTheProvider(t *testing.T) {
	l, h, p := &lock{}, &history{}, newProvider(nil)
	run(t, newCandidate(t, "vk-milan-1", time.Minute, l, h, p.link))
	require.Eventually(t, func() bool { return l.holder() == "vk-milan-1" }, soon, tick)

	p.set(errUnreachable)
	require.Eventually(t, func() bool { return l.holder() == "" }, soon, tick, "the lease is released")
	p.awaitProbes(t, 10)
	assert.Empty(t, l.holder(), "the lease is not acquired again")
	assert.Equal(t, []bool{true}, h.changes(), "the leadership stays until another identity takes the lease")

	p.set(nil)
	require.Eventually(t, func() bool { return l.holder() == "vk-milan-1" }, soon, tick)
	assert.Equal(t, []bool{true}, h.changes(), "an outage that all candidates see moves no leadership")

	p.set(errUnreachable)
	require.Eventually(t, func() bool { return l.holder() == "" }, soon, tick)
	l.setHolder("vk-milan-2")
	require.Eventually(t, func() bool { return len(h.changes()) == 2 }, soon, tick, "the candidate that reaches the provider leads")
	p.set(nil)
	p.awaitProbes(t, 10)
	assert.Equal(t, "vk-milan-2", l.holder(), "the new leader keeps the lease")
	assert.Equal(t, []bool{true, false}, h.changes())
}

func TestCandidateCampaignsOnlyWhenItReachesTheProvider(t *testing.T) {
	l, h, p := &lock{}, &history{}, newProvider(errUnreachable)
	run(t, newCandidate(t, "vk-milan-1", time.Minute, l, h, p.link))
	p.awaitProbes(t, 10)
	assert.Equal(t, "no lease", l.holder())
	p.set(nil)
	require.Eventually(t, func() bool { return len(h.changes()) == 1 }, soon, tick)

	// A candidate that does not lead withdraws after the first check that fails.
	follower, followerHistory := newProvider(nil), &history{}
	run(t, newCandidate(t, "vk-milan-2", time.Minute, l, followerHistory, follower.link))
	follower.awaitProbes(t, 3)
	follower.set(errUnreachable)
	follower.awaitProbes(t, 3)
	p.set(errUnreachable)
	require.Eventually(t, func() bool { return l.holder() == "" }, soon, tick)
	follower.set(errUnreachable)
	follower.awaitProbes(t, 20)
	assert.Empty(t, l.holder())
	assert.Equal(t, []bool{true}, h.changes())
	assert.Empty(t, followerHistory.changes())

	follower.set(nil)
	require.Eventually(t, func() bool { return len(h.changes()) == 2 && len(followerHistory.changes()) == 1 }, soon, tick)
	assert.Equal(t, "vk-milan-2", l.holder())
}

func TestFewFailedChecksKeepTheLeadership(t *testing.T) {
	l, h, p := &lock{}, &history{}, newProvider(nil)
	run(t, newCandidate(t, "vk-milan-1", time.Minute, l, h, p.link))
	require.Eventually(t, func() bool { return l.holder() == "vk-milan-1" }, soon, tick)
	transitions := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.record.LeaderTransitions
	}
	before := transitions()
	var mu sync.Mutex
	probes := 0
	p.link.Connect(func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		probes++
		if probes%maxFailures != 0 {
			return errUnreachable
		}
		return nil
	}, nil)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return probes > 10*maxFailures
	}, soon, tick)
	assert.Equal(t, before, transitions())
	assert.Equal(t, "vk-milan-1", l.holder())
	assert.Equal(t, []bool{true}, h.changes())
}

func TestLeaderWithoutBothClustersStops(t *testing.T) {
	l, h, p := &lock{}, &history{}, newProvider(nil)
	run(t, newCandidate(t, "vk-milan-1", shortDeadline, l, h, p.link))
	h.awaitLeading(t, true, "a free lease is acquired")
	p.set(errUnreachable)
	require.Eventually(t, func() bool { return l.holder() == "" }, soon, tick)
	l.setDown(true)
	h.awaitLeading(t, false, "another identity may hold the lease")
	l.setDown(false)
	p.set(nil)
	h.awaitLeading(t, true, "both clusters answer")
}
