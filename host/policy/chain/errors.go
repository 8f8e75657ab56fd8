package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Classes of failures in addition to those of a call (package engine).
const (
	// Undeclared: the answer has an operation that the module does not declare or the
	// binding does not allow.
	Undeclared engine.Class = "UndeclaredWrite"
	// Quarantined: the policy was not called because it keeps failing.
	Quarantined engine.Class = "Quarantined"
	// Unavailable: the policy was enforced before and no version of it can be used now.
	Unavailable engine.Class = "Unavailable"
	// TooLarge: the object is too large for the policy's request or for its answer. The
	// object's author must act.
	TooLarge engine.Class = "ObjectTooLarge"
	// Host: the policy could not be called for a reason that is not its own.
	Host engine.Class = "Host"
)

// classError is an error with its class.
type classError struct {
	class engine.Class
	err   error
}

func (e *classError) Error() string   { return e.err.Error() }
func (e *classError) Unwrap() []error { return []error{e.class, e.err} }

// classOf returns the class of an error, [Host] if it has none.
func classOf(err error) engine.Class {
	for _, hostError := range []error{context.Canceled, context.DeadlineExceeded, engine.ErrClosed, engine.ErrNoInstance} {
		if errors.Is(err, hostError) {
			return Host
		}
	}
	if errors.Is(err, engine.ErrRequestTooLarge) {
		return TooLarge
	}
	if known, ok := errors.AsType[*classError](err); ok {
		return known.class
	}
	if call, ok := errors.AsType[*engine.CallError](err); ok {
		return call.Class
	}
	return Host
}

// countsAgainstPolicy reports whether failures of a class lead to a quarantine.
func countsAgainstPolicy(class engine.Class) bool {
	return class != Host && class != Quarantined && class != Unavailable && class != TooLarge
}

// PolicyError reports that a policy gave no valid answer.
type PolicyError struct {
	Point   contract.Point
	Moment  contract.Moment
	Binding string
	Module  string
	Digest  string
	// Class of the failure.
	Class engine.Class
	Err   error
	// SettingsChecked reports that the module accepted its settings before the call, so that
	// they are not the cause.
	SettingsChecked bool
}

// maxErrorBytes bounds the message of a [PolicyError]. The message becomes part of events,
// conditions and answers of webhooks, and may quote the module.
const maxErrorBytes = 4 << 10

// Error implements error. The message is one line of plain text. It names the policy, its
// code, the class of the failure, and who must act.
func (e *PolicyError) Error() string { return plaintext.Within(e.text(), maxErrorBytes) }

func (e *PolicyError) text() string {
	at := string(e.Point)
	if e.Moment != "" {
		at += "/" + string(e.Moment)
	}
	policy := fmt.Sprintf("policy %q (module %s, %s)", e.Binding, e.Module, ShortDigest(e.Digest))
	object := fmt.Sprintf("OffloadingPolicy %q, or of the ConfigMap that defines it", e.Binding)
	switch e.Class {
	case Quarantined:
		return fmt.Sprintf("%s is quarantined at %s: %v; %s; meanwhile, an operator can load a working version, or set spec.failurePolicy or spec.mode of %s; the policy is retried periodically", policy, at, e.Err, e.remedy(), object)
	case Unavailable:
		return fmt.Sprintf("%s was enforced before and cannot be used now at %s: %v; an operator must correct that; meanwhile, an operator can set spec.failurePolicy or spec.mode of %s", policy, at, e.Err, object)
	case TooLarge:
		return fmt.Sprintf("the object is too large for %s at %s: %v; the object's author must make it smaller", policy, at, e.Err)
	case Host:
		return fmt.Sprintf("%s could not be called at %s: %v; if this persists, an operator must check the log of the component", policy, at, e.Err)
	default:
		return fmt.Sprintf("%s gave no valid answer at %s (%s): %s; meanwhile, an operator can set spec.failurePolicy or spec.mode of %s", policy, at, string(e.Class), e.Reason(), object)
	}
}

// Reason describes what was wrong with the answer, and who must act.
func (e *PolicyError) Reason() string {
	text := e.Err.Error()
	if e.Class == TooLarge {
		return text
	}
	// Errors of the engine already name who must act, except those that the module reports.
	call, ok := errors.AsType[*engine.CallError](e.Err)
	if possible, _ := isAboutSettings(e.Class, text, e.SettingsChecked); ok && call.Class != engine.Guest && !possible {
		return text
	}
	return text + "; " + e.remedy()
}

// remedy says which role must act.
func (e *PolicyError) remedy() string {
	class, message := e.Class, e.Err.Error()
	if quarantine, ok := errors.AsType[*QuarantineError](e.Err); ok {
		class, message = quarantine.Class, quarantine.Last
	}
	return remedy(e.Binding, class, message, e.SettingsChecked)
}

// Unwrap returns the cause.
func (e *PolicyError) Unwrap() error { return e.Err }
