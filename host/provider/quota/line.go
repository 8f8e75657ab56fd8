package quota

import (
	"context"
	"fmt"
	"sync"
)

// lines have those that wait for the same thing go one after the other. The zero value has none.
type lines struct {
	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	// turn has room for the one whose turn it is.
	turn chan struct{}
	// length is how many wait, with that one.
	length int
}

// enter waits until it is the caller's turn, and returns how to end it.
func (l *lines) enter(ctx context.Context, name string) (leave func(), err error) {
	l.mu.Lock()
	if l.lines == nil {
		l.lines = map[string]*line{}
	}
	joined := l.lines[name]
	if joined == nil {
		joined = &line{turn: make(chan struct{}, 1)}
		l.lines[name] = joined
	}
	joined.length++
	l.mu.Unlock()
	quit := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if joined.length--; joined.length == 0 {
			delete(l.lines, name)
		}
	}
	select {
	case joined.turn <- struct{}{}:
		return func() { <-joined.turn; quit() }, nil
	case <-ctx.Done():
		quit()
		return nil, fmt.Errorf("waiting for earlier decisions on %s: %w", name, ctx.Err())
	}
}
