// Package loading runs a bounded number of loads in the background of one worker. The worker
// begins each load and takes or drops its result. A result that is not taken is closed.
package loading

import (
	"context"
	"sync"
)

// Loads are the loads of one worker. They are safe for concurrent use.
type Loads[T any] struct {
	closeLoaded func(T)
	ended       func()
	slots       chan struct{}

	mu      sync.Mutex
	current map[*Load[T]]bool
	stopped bool
	running sync.WaitGroup
}

// Load is one load. Its result belongs to the Loads until it is taken.
type Load[T any] struct {
	cancel context.CancelFunc

	mu     sync.Mutex
	state  state
	loaded T
	err    error
}

type state int

const (
	running state = iota
	done
	over // taken or dropped
)

// New returns Loads that run at most limit loads at a time. closeLoaded is called with each result
// that is not taken, ended after each load that can be taken; neither may block.
func New[T any](limit int, closeLoaded func(T), ended func()) *Loads[T] {
	return &Loads[T]{closeLoaded: closeLoaded, ended: ended, slots: make(chan struct{}, limit), current: map[*Load[T]]bool{}}
}

// Begin calls load in the background, as soon as there is a slot. The load outlives the context,
// of which it keeps the values; its own context ends when it is dropped. After Stop, Begin
// starts no load.
func (l *Loads[T]) Begin(ctx context.Context, load func(context.Context) (T, error)) *Load[T] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started := &Load[T]{cancel: cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		cancel()
		return started
	}
	l.current[started] = true
	l.running.Go(func() { l.run(ctx, started, load) })
	return started
}

func (l *Loads[T]) run(ctx context.Context, started *Load[T], load func(context.Context) (T, error)) {
	defer l.remove(started)
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil || l.isStopped() {
		return
	}
	loaded, err := load(ctx)
	switch isWanted := started.finish(loaded, err); {
	case isWanted:
		l.ended()
	case err == nil:
		l.closeLoaded(loaded)
	}
}

func (l *Loads[T]) isStopped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped
}

func (l *Loads[T]) remove(ended *Load[T]) {
	ended.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.current, ended)
}

// Drop cancels a load and closes its result.
func (l *Loads[T]) Drop(dropped *Load[T]) {
	if loaded, ok := dropped.drop(); ok {
		l.closeLoaded(loaded)
	}
}

// Stop drops all loads and returns when none runs any more.
func (l *Loads[T]) Stop() {
	l.mu.Lock()
	l.stopped = true
	running := make([]*Load[T], 0, len(l.current))
	for current := range l.current {
		running = append(running, current)
	}
	l.mu.Unlock()
	for _, dropped := range running {
		l.Drop(dropped)
	}
	l.Wait()
}

// Wait returns when no load runs.
func (l *Loads[T]) Wait() { l.running.Wait() }

// Take returns the result of a load that has ended. The caller closes it. A result can be taken
// once.
func (o *Load[T]) Take() (loaded T, ended bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != done {
		return loaded, false, nil
	}
	o.state = over
	return o.loaded, true, o.err
}

// finish stores the result of a load, and reports whether it can be taken.
func (o *Load[T]) finish(loaded T, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == over {
		return false
	}
	if o.state, o.err = done, err; err == nil { // with an error it may be a typed nil
		o.loaded = loaded
	}
	return true
}

// drop cancels the load. It returns the result, if there is one already.
func (o *Load[T]) drop() (loaded T, ok bool) {
	o.cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	ok = o.state == done && o.err == nil
	o.state = over
	return o.loaded, ok
}
