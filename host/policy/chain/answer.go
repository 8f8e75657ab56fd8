package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"

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

// maxSaidBytes bounds the answer that a link keeps, in bytes.
const maxSaidBytes = 16 << 10

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

// ask calls the policy and checks its answer.
func (l *link) ask(ctx context.Context, request []byte) (*answer, error) {
	data, stats, err := l.Policy.Call(ctx, l.export, request)
	if err != nil {
		_, called := errors.AsType[*engine.CallError](err)
		if !called && ctx.Err() == nil && !errors.Is(err, engine.ErrClosed) {
			err = &fault{class: engine.Guest, err: err} // of a policy that is no module
		}
		return nil, err
	}
	a, err := l.read(data)
	if err != nil {
		class := engine.BadOutput
		if undeclared, ok := errors.AsType[*fault](err); ok {
			class = undeclared.class
		}
		return nil, &fault{class: class, err: fmt.Errorf("checking the answer: %w", err)}
	}
	answered := *a
	answered.stats = stats
	return &answered, nil
}

// said is what a policy said last, and what it means.
type said struct {
	data   []byte
	answer *answer
}

// read is decode, but what the policy says again, about another object, is not decoded
// again: most policies have few answers.
func (l *link) read(data []byte) (*answer, error) {
	if last := l.said.Load(); last != nil && bytes.Equal(last.data, data) {
		return last.answer, nil
	}
	a, err := l.decode(data)
	if err == nil && len(data) <= maxSaidBytes {
		l.said.Store(&said{data: data, answer: a})
	}
	return a, err
}

// decode reads a response strictly: what we do not understand is an error, never
// nothing.
func (l *link) decode(data []byte) (*answer, error) {
	if len(data) == 0 {
		return nil, errors.New("it is empty")
	}
	if len(data) > l.maximum.ResponseBytes {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(data), l.maximum.ResponseBytes)
	}
	response, err := operation.DecodeResponse(data)
	if err != nil {
		return nil, err
	}
	if response.Version != contract.Version {
		return nil, fmt.Errorf("its contract version is %q, want %q", response.Version, contract.Version)
	}
	a := &answer{bytes: len(data)}
	if err := a.checkTexts(response); err != nil {
		return nil, err
	}
	for _, warning := range response.Warnings {
		a.warnings = append(a.warnings, engine.Plain(warning))
	}
	if response.Deny != nil || response.Skip != nil {
		return a, l.refuse(a, response)
	}
	if len(response.Operations) > l.maximum.Operations {
		return nil, fmt.Errorf("it has %d operations, more than %d", len(response.Operations), l.maximum.Operations)
	}
	if a.operations, err = operation.Compile(response.Operations); err != nil {
		return nil, err
	}
	for i := range a.operations {
		if err := l.writes.Check(&a.operations[i]); err != nil {
			return nil, &fault{class: Undeclared, err: fmt.Errorf("operation %d is outside of what the module declares and the binding allows: %w", i, err)}
		}
	}
	return a, nil
}

// refuse takes the refusal or the skip of an answer, where the point allows one.
func (l *link) refuse(a *answer, response *contract.Response) error {
	if response.Deny != nil && !l.bound.denies {
		return fmt.Errorf("a policy cannot deny at %s", l.Point)
	}
	if response.Skip != nil && !l.bound.skips {
		return fmt.Errorf("a policy cannot skip at %s", l.Point)
	}
	if deny := response.Deny; deny != nil {
		a.deny = &contract.Denial{Reason: engine.Plain(deny.Reason), Message: engine.Plain(deny.Message)}
	}
	if skip := response.Skip; skip != nil {
		a.skip = &contract.Skip{Reason: engine.Plain(skip.Reason), Message: engine.Plain(skip.Message)}
	}
	return nil
}

func (a *answer) checkTexts(response *contract.Response) error {
	if len(response.Warnings) > contract.MaxWarnings {
		return fmt.Errorf("it has %d warnings, more than %d", len(response.Warnings), contract.MaxWarnings)
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

func checkReason(what, reason, message string) error {
	if reason == "" || message == "" {
		return fmt.Errorf("a %s needs a reason and a message", what)
	}
	if len(reason) > maxReasonBytes || len(message) > maxMessageBytes {
		return fmt.Errorf("a %s is longer than %d and %d bytes", what, maxReasonBytes, maxMessageBytes)
	}
	return nil
}
