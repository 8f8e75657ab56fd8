// Package link checks whether the provider's API server can be reached from this process.
// The Node's heartbeat and the leader election of a virtual node share one Link, so that
// neither repeats a check of the other within one interval.
package link

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Link is the connection of this process to one provider. A ForeignCluster does not replace
// it: that reports the state of the provider, not whether this process reaches it. It is
// safe for concurrent use.
type Link struct {
	interval, timeout time.Duration
	now               func() time.Time
	connected         chan struct{}

	mu      sync.Mutex
	probe   func(context.Context) error
	answers *Answers
	// session counts the probes that were set.
	session  int
	probedAt time.Time
	failures int
}

// New returns a Link without a probe. The result of a check is used for interval; a check
// takes at most timeout. With an interval of zero, nothing is checked and the provider
// counts as reachable.
func New(interval, timeout time.Duration, now func() time.Time) *Link {
	return &Link{interval: interval, timeout: timeout, now: now, connected: make(chan struct{}), failures: 1}
}

// Interval returns how long the result of a check is used.
func (l *Link) Interval() time.Duration { return l.interval }

// Connect sets the probe of a new session. The next check uses it at once. answers are those of the requests
// of the session, and may be nil.
func (l *Link) Connect(probe func(context.Context) error, answers *Answers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.probe == nil {
		close(l.connected)
	}
	l.probe, l.answers, l.probedAt = probe, answers, time.Time{}
	l.session++
}

// Check probes the provider, records the result and returns the probe's error. An overloaded API server that
// answers another request, but not the probe in time, can be reached: what an outage causes, a read of all
// objects, would overload it more. The result is
// not recorded when the context is canceled, or when a new session began meanwhile; a deadline
// that is exceeded counts as a failure.
func (l *Link) Check(ctx context.Context) error {
	l.mu.Lock()
	probe, answers, session := l.probe, l.answers, l.session
	l.mu.Unlock()
	began := l.now()
	err := probe(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	if isSilent(err) && answers != nil && answers.since(began) {
		err = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if session != l.session {
		return err
	}
	l.probedAt = l.now()
	if isReachable(err) {
		l.failures = 0
	} else {
		l.failures++
	}
	return err
}

// Failures returns how many checks in a row have failed; zero means that the provider can be
// reached. It checks first if the last result is older than the interval, and with recheck
// also if the last check failed. It waits for the first Connect, and returns 1 when the
// context ends before.
func (l *Link) Failures(ctx context.Context, recheck bool) int {
	select {
	case <-l.connected:
	case <-ctx.Done():
		return 1
	}
	if l.interval == 0 {
		return 0
	}
	l.mu.Lock()
	isCurrent := l.now().Sub(l.probedAt) < l.interval && (l.failures == 0 || !recheck)
	l.mu.Unlock()
	if !isCurrent {
		limited, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		_ = l.Check(limited)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures
}

// isReachable reports whether the result of a probe shows that the provider's API server
// accepts this process. An identity without the right to the probed path can still reflect;
// an identity that the API server does not accept cannot.
func isReachable(err error) bool {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return true
	case !errors.As(err, &status):
		return false
	}
	code := int(status.Status().Code)
	return code/100 == 4 && isAccepted(code)
}
