// Package dispatch connects a module's exports with the functions that its author
// registered. It must not know what the bytes mean.
package dispatch

import "github.com/longshore-dev/longshore/sdk/internal/abi"

// Handler answers an input with an output.
type Handler func(input []byte) ([]byte, error)

var handlers = map[string]Handler{}

// Register sets the handler of an export. It is called from init functions, and
// panics when an export is registered twice, since one of the two policies would
// never be asked.
func Register(export string, h Handler) {
	if handlers[export] != nil {
		panic("longshore: " + export + " is registered twice in this module")
	}
	handlers[export] = h
}

// Run answers the call that is under way and returns the export's status.
func Run(export string) int32 {
	h := handlers[export]
	if h == nil {
		abi.Fail(export + ": the module exports it but registers no policy for it: call Handle in an init function")
		return abi.Failed
	}
	output, err := h(abi.Input())
	if err != nil {
		abi.Fail(export + ": " + err.Error())
		return abi.Failed
	}
	abi.Output(output)
	return abi.OK
}
