// Package wat assembles the WebAssembly text format, as far as hand-written guests and
// probes need it: so they stand in the tree as text, no binary is committed, and
// nothing has to be installed to build them.
//
// It knows the instructions of WebAssembly 2.0 without SIMD, in the folded form (or
// flat, where an instruction opens no block), names for everything that has an index,
// imports of functions, one memory, one table, globals, element and data segments. It
// checks names and shapes; types are for the engine to check, and a probe may get them
// wrong on purpose.
package wat
