// Package engine runs policy modules in sandboxes: bytes in, bytes out.
//
// It is the host side of the Extism ABI on wazero, so that any Extism PDK works. A
// call gets an instance in its pristine state, and limits of fuel, time, memory and answer.
// Each call ends with an answer or with a [*CallError] that classifies the failure. An
// answer that is empty, too large or out of range is an error.
//
// Calls are pure: clock and random numbers are constant, there are no files, arguments or
// environment variables, and Extism's variables are empty at every call. After the answer
// the instance's memory and globals are reset to a snapshot, which was taken after the
// module had started. An instance that trapped, exited or grew its memory is dropped.
//
// A reset compares all of the instance's memory with the snapshot, in a goroutine of its own: for
// the built-in module with its 4.6 MiB it takes half a millisecond of CPU. To compare only the pages
// that the guest wrote to would need the page map of Linux.
//
// The package is the only one that knows the ABI. It knows neither the meaning of the bytes
// nor Kubernetes. It runs only modules that package fuel metered with the names of
// [FuelExport] and its neighbors.
package engine
