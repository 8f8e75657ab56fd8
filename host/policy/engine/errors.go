package engine

import (
	"errors"
	"fmt"
	"strings"
)

// Class says what kind of failure a call ended with. A class is an error itself:
// errors.Is(err, engine.Timeout).
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
// became free in time, or none could be made. It says nothing about the module.
var ErrNoInstance = errors.New("no instance of the module to call")

// ErrClosed is returned by calls of a module that was closed.
var ErrClosed = errors.New("the module is closed")

// CallError is the failure of a call.
type CallError struct {
	// Module and Point (the export) that were called.
	Module, Point string
	// Class of the failure; errors.Is holds for it.
	Class Class
	// Err says what happened, in a sentence that names who must act.
	Err error
	// Stderr is what the guest wrote to its standard output and error, cut at
	// [Limits.StderrBytes].
	Stderr string
}

// Error implements error. It does not contain the whole of Stderr.
func (e *CallError) Error() string {
	return fmt.Sprintf("policy module %s: %s: %v", e.Module, e.Point, e.Err)
}

// Unwrap makes errors.Is hold for the class and for the cause.
func (e *CallError) Unwrap() []error { return []error{e.Class, e.Err} }

// panicText returns the part of a guest's standard error that says why it gave up:
// the paragraph of the panic, without the stack behind it.
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
