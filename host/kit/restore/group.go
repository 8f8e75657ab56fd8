package restore

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Group makes watches of one kind at one API server share their questions for its resource version. An
// overloaded API server ends watches whose events it cannot send: when it ended one that hundreds of
// namespaces share (package consumer/feed), it got a list for each of them.
//
// The zero Group is ready for use. It is safe for concurrent use.
type Group struct {
	mu sync.Mutex
	// running is the question that is asked now, next the one that follows.
	running, next *question
}

// question is one request and its answer.
type question struct {
	answered chan struct{}
	version  string
	err      error
	// isOwn is set while there is no answer, and if it is of no use to others.
	isOwn bool
}

// ask returns the resource version of the API server at a moment after the call. A question that is being
// asked may be older than the end of the caller's watch, so that callers share the next one.
func (g *Group) ask(ctx context.Context, list func(context.Context) (string, error)) (string, error) {
	q, isShared, before := g.join()
	if isShared {
		select {
		case <-q.answered:
		case <-ctx.Done():
			return "", ctx.Err() //nolint:wrapcheck // The reflector ends.
		}
		if q.isOwn {
			return list(ctx)
		}
		return q.version, q.err
	}
	defer g.answered(q)
	if before != nil {
		select {
		case <-before.answered:
		case <-ctx.Done():
		}
	}
	q.version, q.err = list(ctx)
	// Credentials and rights are those of the caller, everything else is of the API server.
	q.isOwn = ctx.Err() != nil || apierrors.IsUnauthorized(q.err) || apierrors.IsForbidden(q.err) || apierrors.IsNotFound(q.err)
	return q.version, q.err
}

// join returns a question that is not asked yet. Others ask it if isShared; else the caller does, after
// another one if that is not nil.
func (g *Group) join() (q *question, isShared bool, before *question) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil {
		return g.next, true, nil
	}
	q = &question{answered: make(chan struct{}), isOwn: true}
	if g.running == nil {
		g.running = q
		return q, false, nil
	}
	g.next = q
	return q, false, g.running
}

// answered lets the next question be asked. A caller whose context ended before its turn leaves the one that
// runs alone.
func (g *Group) answered(q *question) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == q {
		g.running, g.next = g.next, nil
	} else {
		g.next = nil
	}
	close(q.answered)
}
