package processnode

import "sync"

// wake notifies all waiting goroutines of a change. Take the channel before reading the
// state, or a change in between is missed.
type wake struct {
	mu sync.Mutex
	ch chan struct{}
}

func newWake() *wake { return &wake{ch: make(chan struct{})} }

func (w *wake) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ch
}

func (w *wake) all() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ch)
	w.ch = make(chan struct{})
}
