package engine

import "sync"

// Lead says whether this engine handles the resources that are for the leader only, of
// all virtual kubelets of one provider. It does not, until told.
//
// An engine that follows holds nothing of them and sends nothing about them: what a new
// leader needs to know, it reads from both ends as at a start, so that also what was
// deleted while nobody led is found. When Lead(false) returns, what was under way is
// canceled. Two engines that lead for a moment do each other no harm: what one creates
// conflicts with what the other has created, a deletion names the object that was seen,
// and what is applied twice is the same, or is put right by the one that goes on.
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
		for r, end := range ns.ends {
			if r.resource.LeaderOnly {
				end.cancel()
				delete(ns.ends, r)
			}
		}
	}
}

// takeUp starts what is for the leader only, where it is not started yet.
func (e *Engine) takeUp(group *sync.WaitGroup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leading {
		return
	}
	for local, ns := range e.namespaces {
		for _, r := range e.runners {
			if ns.ends[r] != nil {
				continue
			}
			// Another leader may have applied something else in the meantime.
			r.states.forgetNamespace(local)
			ns.ends[r] = e.startEnds(group, ns, r)
		}
	}
}
