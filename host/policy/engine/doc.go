// Package engine runs policy modules in sandboxes: bytes in, bytes out.
//
// It is the host side of the Extism ABI on wazero, so that any Extism PDK works. A
// call gets an instance in its pristine state and at most so much fuel, memory and
// answer; whatever the guest does, the call ends with an answer or with a
// [*CallError] that says whose fault it is. Nothing fails open: an answer that is
// empty, too large or out of range is an error.
//
// What makes calls pure: clock and randomness are constant, there are no files,
// arguments or environment, variables are empty at every call, and after the reply
// the instance's memory and globals are set back to a snapshot taken once the module
// had started. An instance that trapped, exited or grew its memory is dropped.
//
// The package is the only one that knows the ABI. It must not know what the bytes
// mean, what a module is called for, or anything of Kubernetes. It runs only modules
// that were metered (package fuel) with the names that [FuelExport] and its
// neighbors give.
package engine
