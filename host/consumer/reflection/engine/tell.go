package engine

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refuse tells the owner of the local object, unless that was the last thing told.
func (x *execution) refuse(r RecordEvent) {
	x.told = true
	x.announce(x.in, r)
}

func (r *runner) announce(in Input, refusal RecordEvent) {
	if in.Local == nil {
		return
	}
	sum := r.states.hash(refusal.Type, refusal.Reason, refusal.Message)
	if r.states.get(in.Key).told == sum {
		return
	}
	r.states.update(in.Key, func(s *keyState) { s.told = sum })
	r.recorder.Event(in.Local, refusal.Type, refusal.Reason, refusal.Message)
}

// tell records an event for an error that a person can do something about, and returns
// the error for the queue. A provider that is away, busy or slow is none of these.
func (r *runner) tell(in Input, err error) error {
	if personal(err) {
		r.announce(in, RecordEvent{
			Type:    EventWarning,
			Reason:  ReasonFailedReflection,
			Message: "Reflection to cluster " + in.Facts.ProviderClusterID + " failed: " + err.Error(),
		})
	}
	return err
}

// personal reports whether an error is for a person: what the API server refuses on
// its merits (a quota, an invalid field, a missing right), and what a definition or a
// policy could not decide.
func personal(err error) bool {
	if errors.Is(err, errAgain) || errors.Is(err, context.Canceled) || terminating(err) {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
			apierrors.IsRequestEntityTooLargeError(err)
	}
	var undecided *undecidedError
	return errors.As(err, &undecided)
}

// undecidedError marks an error of a definition or of a policy.
type undecidedError struct{ error }

func (u *undecidedError) Unwrap() error { return u.error }
