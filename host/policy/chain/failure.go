package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Classes of failures beside those of a call (package engine).
const (
	// Undeclared: the answer has an operation that the module does not declare or the
	// binding does not allow.
	Undeclared engine.Class = "UndeclaredWrite"
	// Quarantined: the policy was not asked, since it keeps failing.
	Quarantined engine.Class = "Quarantined"
	// Unavailable: the policy was not asked, since no version of it can be used, although
	// one was in force (ADR 24).
	Unavailable engine.Class = "Unavailable"
	// TooLarge: the object is too large for the policy to be asked about it, or for what it
	// answered. Whose object it is must act.
	TooLarge engine.Class = "ObjectTooLarge"
	// Host: not the policy's fault: the question could not be asked.
	Host engine.Class = "Host"
)

// fault is an error with its class.
type fault struct {
	class engine.Class
	err   error
}

func (f *fault) Error() string   { return f.err.Error() }
func (f *fault) Unwrap() []error { return []error{f.class, f.err} }

// classOf says what kind of failure an error of a policy is. What nobody classified
// is the host's.
func classOf(err error) engine.Class {
	for _, ours := range []error{context.Canceled, context.DeadlineExceeded, engine.ErrClosed, engine.ErrNoInstance} {
		if errors.Is(err, ours) {
			return Host
		}
	}
	if errors.Is(err, engine.ErrRequestTooLarge) {
		return TooLarge
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return f.class
	}
	if call, ok := errors.AsType[*engine.CallError](err); ok {
		return call.Class
	}
	return Host
}

// blamed tells whether a failure of the class speaks against the policy.
func blamed(class engine.Class) bool {
	return class != Host && class != Quarantined && class != Unavailable && class != TooLarge
}

// PolicyError says that a policy gave no valid answer, and so decided nothing.
type PolicyError struct {
	Point   contract.Point
	Moment  contract.Moment
	Binding string
	Module  string
	Digest  string
	// Class of the failure.
	Class engine.Class
	Err   error
}

// maxErrorBytes bounds the message of a [PolicyError]: it becomes part of events, conditions
// and answers of webhooks, and may quote the module.
const maxErrorBytes = 4 << 10

// Error implements error; it names the policy, its code, the class of the failure and
// who must act. It is one line of plain text.
func (e *PolicyError) Error() string { return engine.PlainWithin(e.text(), maxErrorBytes) }

func (e *PolicyError) text() string {
	at := string(e.Point)
	if e.Moment != "" {
		at += "/" + string(e.Moment)
	}
	who := fmt.Sprintf("policy %q (module %s, %s)", e.Binding, e.Module, ShortDigest(e.Digest))
	switch e.Class {
	case Quarantined:
		return fmt.Sprintf("%s is quarantined at %s: %v; the module's author must correct it, an operator can load a version that works, or set spec.failurePolicy or spec.mode of OffloadingPolicy %q, or of the ConfigMap it is kept from, meanwhile; it is tried again from time to time", who, at, e.Err, e.Binding)
	case Unavailable:
		return fmt.Sprintf("%s was in force and cannot be used now, so nobody answers at %s: %v; an operator must put that right, or set spec.failurePolicy or spec.mode of OffloadingPolicy %q, or of the ConfigMap it is kept from, meanwhile", who, at, e.Err, e.Binding)
	case TooLarge:
		return fmt.Sprintf("the object is too large for %s at %s: %v; its author must make it smaller", who, at, e.Err)
	case Host:
		return fmt.Sprintf("%s could not be asked at %s: %v; if it lasts, an operator should read the log of the component", who, at, e.Err)
	default:
		return fmt.Sprintf("%s gave no valid answer at %s (%s): %s; an operator can set spec.failurePolicy or spec.mode of OffloadingPolicy %q, or of the ConfigMap it is kept from, meanwhile", who, at, string(e.Class), e.Reason(), e.Binding)
	}
}

// Reason says what was wrong with the answer, and that the module's author must act.
func (e *PolicyError) Reason() string {
	// The engine says it itself, but for what the module reports.
	if call, ok := errors.AsType[*engine.CallError](e.Err); ok && call.Class != engine.Guest || e.Class == TooLarge {
		return e.Err.Error()
	}
	return e.Err.Error() + "; the module's author must act"
}

// Unwrap returns the cause.
func (e *PolicyError) Unwrap() error { return e.Err }
