// Package loading does what takes long beside a worker that must not wait: a bounded number
// of loads at a time, each of which is asked for, and taken or dropped, by that worker.
// Nothing that was loaded is lost: it is the taker's, or it is closed. It does not know
// what is loaded.
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

// Load is one of them. What comes of it belongs to the Loads until it is taken.
type Load[T any] struct {
	cancel context.CancelFunc

	mu     sync.Mutex
	state  state
	loaded T
	err    error
}

type state int

const (
	underWay state = iota
	done
	over // taken or dropped
)

// New returns Loads of which at most limit run at a time. closeLoaded is told of what nobody
// wants any more, ended of every load that can be taken; neither may block.
func New[T any](limit int, closeLoaded func(T), ended func()) *Loads[T] {
	return &Loads[T]{closeLoaded: closeLoaded, ended: ended, slots: make(chan struct{}, limit), current: map[*Load[T]]bool{}}
}

// Begin calls load beside the caller, as soon as there is a slot. Values of the context
// stay, its end does not count: the load outlives the caller. The context that load gets
// ends when it is dropped. After Stop, nothing is loaded any more.
func (l *Loads[T]) Begin(ctx context.Context, load func(context.Context) (T, error)) *Load[T] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	one := &Load[T]{cancel: cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		cancel()
		return one
	}
	l.current[one] = true
	l.running.Go(func() { l.run(ctx, one, load) })
	return one
}

func (l *Loads[T]) run(ctx context.Context, one *Load[T], load func(context.Context) (T, error)) {
	defer l.leave(one)
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil || l.isStopped() {
		return
	}
	loaded, err := load(ctx)
	switch wanted := one.finish(loaded, err); {
	case wanted:
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

func (l *Loads[T]) leave(one *Load[T]) {
	one.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.current, one)
}

// Drop forgets a load that nobody waits for any more, and closes what came of it.
func (l *Loads[T]) Drop(one *Load[T]) {
	if loaded, ok := one.drop(); ok {
		l.closeLoaded(loaded)
	}
}

// Stop drops all loads that run and returns when none runs any more.
func (l *Loads[T]) Stop() {
	l.mu.Lock()
	l.stopped = true
	running := make([]*Load[T], 0, len(l.current))
	for one := range l.current {
		running = append(running, one)
	}
	l.mu.Unlock()
	for _, one := range running {
		l.Drop(one)
	}
	l.Wait()
}

// Wait returns when no load runs.
func (l *Loads[T]) Wait() { l.running.Wait() }

// Take returns what came of the load, once it has ended: from then on it is the caller's
// to close. It can be taken once.
func (o *Load[T]) Take() (loaded T, ended bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != done {
		return loaded, false, nil
	}
	o.state = over
	return o.loaded, true, o.err
}

// finish notes how a load ended, and tells whether somebody wants to know.
func (o *Load[T]) finish(loaded T, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == over {
		return false
	}
	if o.state, o.err = done, err; err == nil { // else it may be a typed nil
		o.loaded = loaded
	}
	return true
}

// drop cancels the load; ok tells that it had come to something already.
func (o *Load[T]) drop() (loaded T, ok bool) {
	o.cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	ok = o.state == done && o.err == nil
	o.state = over
	return o.loaded, ok
}
