// Package fuel meters a WebAssembly module by rewriting it: bytes in, bytes out.
//
// The rewritten module counts down its fuel in a global, in parts of ticks. It pays a tick at
// every function entry and every loop iteration, which covers cheap instructions. Expensive
// instructions cost more: loads and stores, floating-point arithmetic, references, calls of
// imported functions, and bulk instructions by their length. When the fuel is negative, the
// module calls an imported function of the host, which adds fuel or ends the call. The number
// of ticks therefore limits the work of a call, and equal calls cost equal numbers of ticks.
// Another global limits the depth of calls.
//
// Indices are checked against the original module. All other validation is left to the engine,
// which must validate the original module as well.
//
// The rewritten module also exports what a host needs to reset an instance: the mutable
// globals, and the start function, which no longer runs by itself.
//
// The package is pure and does not decide which modules are allowed: it reports what a module
// contains. For any input it returns an error or a module. It does not panic, and allocates at
// most a small multiple of the size of the input.
package fuel
