package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/host/policy/operation"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Bounds of the texts in an answer, in bytes.
const (
	maxReasonBytes  = 128
	maxMessageBytes = 1024
	maxWarningBytes = 256
)

// answer is a checked response. It is immutable.
type answer struct {
	operations []operation.Operation
	deny       *contract.Denial
	skip       *contract.Skip
	warnings   []string
	stats      engine.Stats
	// bytes is the size of the encoded response.
	bytes int
}

// call calls the policy and checks its answer.
func (l *link) call(ctx context.Context, request []byte) (*answer, error) {
	data, stats, err := l.Policy.Call(ctx, l.export, request)
	if err != nil {
		_, called := errors.AsType[*engine.CallError](err)
		if !called && ctx.Err() == nil && !errors.Is(err, engine.ErrClosed) {
			err = &classError{class: engine.Guest, err: err} // the policy is a Go function
		}
		return nil, err
	}
	a, err := l.decode(data)
	if err != nil {
		class := engine.BadOutput
		if known, ok := errors.AsType[*classError](err); ok {
			class = known.class
		}
		return nil, &classError{class: class, err: fmt.Errorf("checking the answer: %w", err)}
	}
	a.stats = stats
	return a, nil
}

// decode decodes a response and checks it.
func (l *link) decode(data []byte) (*answer, error) {
	if len(data) == 0 {
		return nil, errors.New("the answer is empty")
	}
	if len(data) > l.maximum.ResponseBytes {
		return nil, fmt.Errorf("the answer has %d bytes, more than %d", len(data), l.maximum.ResponseBytes)
	}
	response, err := operation.DecodeResponse(data)
	if err != nil {
		return nil, err
	}
	if err := checkTexts(response); err != nil {
		return nil, err
	}
	a := &answer{bytes: len(data)}
	for _, warning := range response.Warnings {
		a.warnings = append(a.warnings, plaintext.Line(warning))
	}
	if response.Deny != nil || response.Skip != nil {
		return a, l.setRefusal(a, response)
	}
	if len(response.Operations) > l.maximum.Operations {
		return nil, fmt.Errorf("the answer has %d operations, more than %d", len(response.Operations), l.maximum.Operations)
	}
	if a.operations, err = operation.Compile(response.Operations); err != nil {
		return nil, err
	}
	for i := range a.operations {
		if err := l.writes.Check(&a.operations[i]); err != nil {
			return nil, &classError{class: Undeclared, err: fmt.Errorf("operation %d is outside of what the module declares and the binding allows: %w", i, err)}
		}
	}
	return a, nil
}

// setRefusal sets the denial or the skip of an answer, if the point allows it.
func (l *link) setRefusal(a *answer, response *contract.Response) error {
	if response.Deny != nil && !l.bound.Denies {
		return fmt.Errorf("policies cannot deny at %s", l.Point)
	}
	if response.Skip != nil && !l.bound.Skips {
		return fmt.Errorf("policies cannot skip at %s", l.Point)
	}
	if deny := response.Deny; deny != nil {
		a.deny = &contract.Denial{Reason: plaintext.Line(deny.Reason), Message: plaintext.Line(deny.Message)}
	}
	if skip := response.Skip; skip != nil {
		a.skip = &contract.Skip{Reason: plaintext.Line(skip.Reason), Message: plaintext.Line(skip.Message)}
	}
	return nil
}

// checkTexts checks the number and size of the texts of a response.
func checkTexts(response *contract.Response) error {
	if len(response.Warnings) > contract.MaxWarnings {
		return fmt.Errorf("the answer has %d warnings, more than %d", len(response.Warnings), contract.MaxWarnings)
	}
	for _, warning := range response.Warnings {
		if len(warning) > maxWarningBytes {
			return fmt.Errorf("a warning has %d bytes, more than %d", len(warning), maxWarningBytes)
		}
	}
	if deny := response.Deny; deny != nil {
		if err := checkReason("denial", deny.Reason, deny.Message); err != nil {
			return err
		}
	}
	if skip := response.Skip; skip != nil {
		return checkReason("skip", skip.Reason, skip.Message)
	}
	return nil
}

func checkReason(kind, reason, message string) error {
	if reason == "" || message == "" {
		return fmt.Errorf("a %s needs a reason and a message", kind)
	}
	if len(reason) > maxReasonBytes {
		return fmt.Errorf("the reason of a %s has %d bytes, more than %d", kind, len(reason), maxReasonBytes)
	}
	if len(message) > maxMessageBytes {
		return fmt.Errorf("the message of a %s has %d bytes, more than %d", kind, len(message), maxMessageBytes)
	}
	return nil
}
