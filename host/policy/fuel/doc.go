// Package fuel meters a WebAssembly module by rewriting it: bytes in, bytes out.
//
// The rewritten module counts its fuel down in a global, in parts of ticks. It pays a tick
// at every function entry and every loop iteration, which covers what is light, and more for
// what may take longer: loads and stores, floating-point arithmetic, references, calls of
// imported functions, and bulk instructions by their length. When the fuel is negative it
// calls the host, through an import that rewriting adds; the host hands out more, or ends
// the call. So the number of ticks bounds what a call can do, whatever the module contains,
// and the same call always costs the same number. Another global bounds how deep calls are
// nested.
//
// A module's indices are checked against what it had before rewriting. An engine validates
// the rest; whether a module was valid must be asked of it before rewriting, too.
//
// Beside that the rewritten module exports what a host needs to bring an instance
// back to an earlier state: the mutable globals, and the start function, which no
// longer runs by itself. And data segments that are neighbors become one, since an
// engine pays for each.
//
// The package is pure. It must not know who runs the module or what the module may
// import: it reports what it found, and the caller decides. Whatever the
// input is, it answers with an error or with a module, never with a panic, and never
// allocates more than a small multiple of the input.
package fuel
