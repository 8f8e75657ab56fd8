package kubelet

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// patience is how many looks at the provider in a row fail before a leader offers its lease:
// one is lost on every busy network.
const patience = 3

// link is the way to the provider as this process sees it. The Node asks whether the
// provider lives, unless a ForeignCluster says so; who leads needs to know what holds from
// here, which no ForeignCluster says. Nobody asks twice within one interval.
type link struct {
	// interval and timeout are those of the Node's ping; an interval of zero asks never, and
	// believes.
	interval, timeout time.Duration
	now               func() time.Time
	connected         chan struct{}

	mu     sync.Mutex
	ask    func(context.Context) error
	asked  time.Time
	failed int
}

func newLink(o *Options, now func() time.Time) *link {
	return &link{interval: o.NodePingInterval, timeout: o.NodePingTimeout, now: now, connected: make(chan struct{}), failed: 1}
}

// connect takes over how a new session asks the provider. It is asked at the next look.
func (l *link) connect(ask func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ask == nil {
		close(l.connected)
	}
	l.ask, l.asked = ask, time.Time{}
}

// health asks the provider whether it lives, and notes what that says of the way there.
func (l *link) health(ctx context.Context) error {
	l.mu.Lock()
	ask := l.ask
	l.mu.Unlock()
	err := ask(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return err // whoever stops says nothing about the provider; a timeout does
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = l.now()
	if answers(err) {
		l.failed = 0
	} else {
		l.failed++
	}
	return err
}

// look returns how many looks in a row have failed: zero means that the provider can be
// reached. It asks if nobody has lately, and one that is eager also if nobody got an answer;
// before the first session, it waits.
func (l *link) look(ctx context.Context, eager bool) (failed int) {
	select {
	case <-l.connected:
	case <-ctx.Done():
		return 1
	}
	if l.interval == 0 {
		return 0
	}
	l.mu.Lock()
	recent := l.now().Sub(l.asked) < l.interval && (l.failed == 0 || !eager)
	l.mu.Unlock()
	if !recent {
		limited, cancel := context.WithTimeout(ctx, l.timeout)
		defer cancel()
		_ = l.health(limited)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// answers reports whether the provider's API server works with this process, whatever it
// says to the question: an identity that may not ask it reflects well. One that it does not
// accept at all reflects nothing.
func answers(err error) bool {
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		return true
	case !errors.As(err, &answer):
		return false
	}
	code := int(answer.Status().Code)
	return code/100 == 4 && code != http.StatusUnauthorized
}
