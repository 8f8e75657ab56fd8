package engine

import (
	"context"
	"hash/fnv"
	"time"
)

// resyncTurns is into how many parts a resync period is divided: each key has its turn
// once in a period, and no turn has all of them.
const resyncTurns = 60

// resync makes every object be decided again once in each period, until the context ends.
// A decision that finds everything as it should be sends nothing; this is for what no
// event tells: a policy that would answer otherwise now, or an event that never came.
func (e *Engine) resync(ctx context.Context, period time.Duration) {
	ticker := time.NewTicker(max(period/resyncTurns, 1))
	defer ticker.Stop()
	for turn := uint32(0); ; turn = (turn + 1) % resyncTurns {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			e.enqueueTurn(turn)
		}
	}
}

// enqueueTurn enqueues the keys whose turn it is.
func (e *Engine) enqueueTurn(turn uint32) {
	e.each(func(r *runner, key Key) {
		if turnOf(key) == turn {
			r.queue.AddTo(laneBackground, key)
		}
	})
}

// each calls visit with every key that this engine handles, also with those whose
// namespace is not mapped; with some twice.
func (e *Engine) each(visit func(*runner, Key)) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, ns := range e.namespaces {
		for r, end := range ns.ends {
			if end.active.Load() {
				r.keys(ns, end, visit)
			}
		}
	}
	for _, r := range e.runners {
		if r.local == nil {
			continue
		}
		for _, name := range r.local.Names("") {
			if e.namespaces[name.Namespace] == nil {
				visit(r, Key{Namespace: name.Namespace, Name: name.Name})
			}
		}
	}
}

// turnOf spreads the keys evenly, and leaves each its turn for as long as it lives.
func turnOf(key Key) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.String()))
	return h.Sum32() % resyncTurns
}
