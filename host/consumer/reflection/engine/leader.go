package engine

import (
	"context"
	"sync"
)

// Lead sets whether this engine handles the resources with LeaderOnly. It does not at first.
//
// A follower neither watches nor writes their objects. A new leader reads both clusters as
// at a start, and so finds deletions that happened without a leader. When Lead(false)
// returns, running requests are canceled. Two leaders for a short time are harmless:
// creations conflict, deletions have the UID as precondition, and the remaining leader
// corrects different applies.
func (e *Engine) Lead(lead bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leading == lead {
		return
	}
	e.leading = lead
	if lead {
		e.wake()
		return
	}
	for _, ns := range e.namespaces {
		for r, caches := range ns.caches {
			if r.resource.LeaderOnly {
				caches.cancel()
				e.release(caches)
				delete(ns.caches, r)
			}
		}
	}
}

// startLeaderOnly starts the resources of the leader where they do not run yet.
func (e *Engine) startLeaderOnly(ctx context.Context, group *sync.WaitGroup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leading {
		return
	}
	for local, ns := range e.namespaces {
		for _, r := range e.runners {
			if ns.caches[r] != nil {
				continue
			}
			// Another leader may have applied something else since.
			r.states.dropNamespace(local)
			r.start(ctx, group)
			if !e.mustWait(ns, r) {
				ns.caches[r] = e.startCaches(ns, r)
			}
		}
	}
}
