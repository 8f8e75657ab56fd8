package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/longshore-dev/longshore/host/kit/budget"
	"github.com/longshore-dev/longshore/host/kit/contest"
)

// overBudgetError is the error of a write that waits. The decision is made again then, so that the newest
// state is written.
type overBudgetError struct{ wait time.Duration }

// Error implements error.
func (e *overBudgetError) Error() string { return fmt.Sprintf("the next write is in %s", e.wait) }

// overBudget returns how long a write waits, and whether an error is about that.
func overBudget(err error) (time.Duration, bool) {
	var over *overBudgetError
	if errors.As(err, &over) {
		return over.wait, true
	}
	return 0, false
}

// spend counts a write of the local object. A provider can change what is mirrored a thousand times a
// second.
func (x *execution) spend(size int) error {
	object := x.states.get(x.in.Key).writes
	if object == nil {
		object = &budget.Object{}
		x.states.update(x.in.Key, func(s *keyState) { s.writes = object })
	}
	wait := x.engine.budget.Take(object, x.in.Local.GetUID(), size, x.engine.options.Now())
	if wait == 0 {
		return nil
	}
	x.recordEvent(RecordEvent{
		Type: EventWarning, Reason: ReasonThrottled, Quiet: contest.Calm,
		Message: fmt.Sprintf("Cluster %s changes the status too often: it is copied every %s now. Ask the operator of that cluster what changes it.", x.in.Facts.ProviderClusterID, budget.ObjectInterval),
	})
	return &overBudgetError{wait}
}

// statusSize returns the size of a status, in bytes.
func statusSize(status any) int {
	if sized, ok := status.(interface{ Size() int }); ok {
		return sized.Size()
	}
	text, _ := json.Marshal(status) // It was decoded.
	return len(text)
}
