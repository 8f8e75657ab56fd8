// Package fuel meters a WebAssembly module by rewriting it: bytes in, bytes out.
//
// The rewritten module counts ticks down in a global and traps when none is left. A
// tick is charged at every function entry and every loop iteration, one more for
// every [Stride] instructions that run without one of those, and bulk memory and
// table instructions are charged in proportion to their length. So the number of
// ticks bounds what a call can do, whatever the module contains, recursion included,
// and the same call always costs the same number.
//
// Beside that the rewritten module exports what a host needs to bring an instance
// back to an earlier state: the mutable globals, and the start function, which no
// longer runs by itself. And data segments that are neighbors become one, since an
// engine pays for each.
//
// The package is pure. It must not know who runs the module or what the module may
// import: it says what it found and leaves the judgment to its caller. Whatever the
// input is, it answers with an error or with a module, never with a panic, and never
// allocates more than a small multiple of the input.
package fuel
