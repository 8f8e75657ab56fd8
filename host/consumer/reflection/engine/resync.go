package engine

import (
	"context"
	"hash/fnv"
	"time"
)

// resyncTurns is the number of turns of a resync period. Each key has one turn in a period.
const resyncTurns = 60

// resync decides each object again once in a period, until the context ends. It finds
// changes without an event, such as a policy that now answers otherwise.
func (e *Engine) resync(ctx context.Context, period time.Duration) {
	ticker := time.NewTicker(max(period/resyncTurns, 1))
	defer ticker.Stop()
	for turn := uint32(0); ; turn = (turn + 1) % resyncTurns {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			e.requeueTurn(turn)
		}
	}
}

// requeueTurn requeues the keys of one turn.
func (e *Engine) requeueTurn(turn uint32) {
	e.each(func(r *runner, key Key) {
		if turnOf(key) == turn {
			r.queue.AddTo(laneBackground, key)
		}
	})
}

// each calls visit with the key of each object that this engine handles, those of namespaces
// that are not mapped included. It may visit a key twice.
func (e *Engine) each(visit func(*runner, Key)) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, ns := range e.namespaces {
		for r, caches := range ns.caches {
			if caches.active.Load() {
				r.visitKeys(ns, caches, visit)
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

// turnOf returns the turn of a key. It spreads the keys evenly.
func turnOf(key Key) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.String()))
	return h.Sum32() % resyncTurns
}
