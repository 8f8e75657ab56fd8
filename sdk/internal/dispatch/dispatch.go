// Package dispatch connects a module's exports with the functions that its author
// registered. It must not know what the bytes mean.
package dispatch

import "github.com/longshore-dev/longshore/sdk/internal/abi"

// Handler answers an input with an output.
type Handler func(input []byte) ([]byte, error)

type entry struct {
	export  string
	handler Handler
}

// entries are few: a list is searched faster than a map.
var entries []entry

func find(export string) Handler {
	for i := range entries {
		if entries[i].export == export {
			return entries[i].handler
		}
	}
	return nil
}

// Register sets the handler of an export. It is called from init functions, and
// panics when an export is registered twice, since one of the two policies would
// never be asked.
func Register(export string, h Handler) {
	if find(export) != nil {
		panic("longshore: " + export + " is registered twice in this module")
	}
	entries = append(entries, entry{export, h})
}

// Run answers the call that is under way and returns the export's status.
func Run(export string) int32 {
	h := find(export)
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
