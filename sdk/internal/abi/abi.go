// Package abi is the guest's side of the Extism ABI: how bytes travel between a
// module and its host. It uses eight of the host's functions, and those for
// logging; it is the only package of the SDK that knows them.
//
// In a module (wasip1) the functions are imports; natively they are stand-ins that
// work in memory, so that a policy's unit tests run the same code.
package abi

// Level is the level of a log line.
type Level int

// The levels, in rising order.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Statuses that an export returns to the host.
const (
	// OK means that the output is set.
	OK int32 = 0
	// Failed means that the error is set.
	Failed int32 = 1
)
