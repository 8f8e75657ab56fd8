package engine

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// recordEvent records an event of the decision.
func (x *execution) recordEvent(event RecordEvent) {
	x.hasRecorded = true
	x.recordOnce(x.in, event)
}

// recordOnce records an event on the local object, unless it equals the last one or is quiet.
func (r *runner) recordOnce(in Input, event RecordEvent) {
	if in.Local == nil {
		return
	}
	sum := r.states.hash(event.Type, event.Reason, event.Message)
	now, state := r.engine.options.Now(), r.states.get(in.Key)
	if state.isQuiet(sum, now) {
		return
	}
	r.states.update(in.Key, func(s *keyState) {
		s.lastEvent = sum
		if event.Quiet > 0 {
			s.quiet = &quietEvent{sum, now.Add(event.Quiet)}
		}
	})
	r.recorder.Event(in.Local, event.Type, event.Reason, event.Message)
}

// recordError records an event for an error that a user or an operator can resolve, and
// returns the error for the queue.
func (r *runner) recordError(in Input, err error) error {
	if isActionable(err) {
		r.recordOnce(in, RecordEvent{
			Type:    EventWarning,
			Reason:  ReasonFailedReflection,
			Message: "Reflection to cluster " + in.Facts.ProviderClusterID + " failed: " + err.Error(),
		})
	}
	return err
}

// isActionable reports whether a user or an operator can resolve an error: what the API
// server refuses for its content (a quota, an invalid field, a missing right), and what a
// definition or a policy could not decide. A provider that is unreachable or slow is not.
func isActionable(err error) bool {
	if errors.Is(err, errStale) || errors.Is(err, context.Canceled) || isNamespaceTerminating(err) {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
			apierrors.IsRequestEntityTooLargeError(err)
	}
	var decision *decisionError
	return errors.As(err, &decision)
}

// decisionError is an error of a definition or of a policy.
type decisionError struct{ error }

func (d *decisionError) Unwrap() error { return d.error }
