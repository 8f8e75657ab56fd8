package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Class classifies the failure of a call. A class is an error: errors.Is(err, engine.Timeout).
type Class string

// The classes.
const (
	// Timeout: the call used up its fuel, or found no free instance in time.
	Timeout Class = "Timeout"
	// Memory: the call needed more memory than its limit, or the request is too large.
	Memory Class = "Memory"
	// Trap: the module crashed: a trap, a panic, an exit, endless recursion.
	Trap Class = "Trap"
	// BadOutput: the module returned without an answer that can be used.
	BadOutput Class = "BadOutput"
	// Denied: the module asked for something that policies may not have.
	Denied Class = "Denied"
	// Guest: the module itself reported an error.
	Guest Class = "Guest"
)

// Error implements error.
func (c Class) Error() string { return "policy call failed: " + string(c) }

// ErrNoInstance is in the error of a call that never began: no instance of the module
// became free in time, or none could be created. The module is not the cause.
var ErrNoInstance = errors.New("no instance of the module to call")

// ErrRequestTooLarge is in the error of a call that never began, because the request is
// longer than [Limits.RequestBytes].
var ErrRequestTooLarge = errors.New("the request is too large")

// ErrCallTime is in the error of a call that reached its limit of CPU time before its fuel
// was used up. Unlike other failures, that depends on the machine.
var ErrCallTime = errors.New("the call took too long")

// ErrClosed is returned by calls of a module that was closed.
var ErrClosed = errors.New("the module is closed")

// ErrNotMetered is in the error of a module that was compiled without the rewriting that the
// engine needs.
var ErrNotMetered = errors.New("it was not metered for this engine")

// CallError is the failure of a call.
type CallError struct {
	// Module and Point (the export) that were called.
	Module, Point string
	// Class of the failure; errors.Is holds for it.
	Class Class
	// Err describes the failure, and names the author or the operator who must act.
	Err error
	// Stderr is the guest's standard output and error, cut at
	// [Limits.StderrBytes].
	Stderr string
}

// Error implements error. It contains neither the whole of Stderr nor the module's name:
// callers add the name of the policy or of the file.
func (e *CallError) Error() string {
	return fmt.Sprintf("%s: %v", e.Point, e.Err)
}

// Unwrap makes errors.Is hold for the class and for the cause.
func (e *CallError) Unwrap() []error { return []error{e.Class, e.Err} }

// refusal is an error of [Engine.Compile] of which the module is the cause.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Refuse marks an error of a [Compiler] as caused by the module.
func Refuse(err error) error { return refusal{err} }

// AtFault reports whether the module's bytes, its limits or the request are the cause of an
// error of [Engine.Compile], [Module.Warm] or [Module.Call]. The same call would fail in the
// same way. Causes of other errors are the host and the machine.
func AtFault(err error) bool {
	for _, transient := range []error{context.Canceled, context.DeadlineExceeded, ErrClosed, ErrNoInstance} {
		if errors.Is(err, transient) {
			return false
		}
	}
	_, refused := errors.AsType[refusal](err)
	_, called := errors.AsType[*CallError](err)
	return refused || called
}

// panicText returns the message of a panic in a guest's standard error, without the stack.
func panicText(stderr string) string {
	text := strings.TrimSpace(stderr)
	for _, mark := range []string{"panic: ", "fatal error: ", "panicked at "} {
		if at := strings.Index(text, mark); at >= 0 {
			text = text[at:]
			break
		}
	}
	text, _, _ = strings.Cut(text, "\n\n")
	if goroutine := strings.Index(text, "\ngoroutine "); goroutine >= 0 {
		text = text[:goroutine]
	}
	text = strings.Join(strings.Fields(text), " ")
	const most = 512
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// firstLine returns the part of a wazero error in front of the stack trace.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimPrefix(line, "wasm error: ")
}
