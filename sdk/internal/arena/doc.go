// Package arena allocates memory while a module is being loaded, so that a call does not
// have to ask the runtime of the language for it.
//
// In a standard Go guest an allocation takes about fifty branches, and three hundred if it
// is the first of its size since the module was loaded; without arenas, reading a request
// and writing its response took 40 % of their fuel for allocations. The host resets a
// module after each call, so the next call finds the same memory again.
//
// Arenas never return the same memory twice, and return it zeroed. On a host that does not
// reset modules, an empty arena allocates the next block. The host asks a module for its
// manifest before anything else, which calls [Refill].
//
// Like the rest of a module, arenas serve one goroutine at a time.
package arena
