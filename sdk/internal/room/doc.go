// Package room holds memory that is made while a module is being loaded, so that a call
// need not ask the language's runtime for it.
//
// In a standard Go guest an allocation costs about fifty branches that are taken, and
// three hundred if it is the first of its size since the module was loaded; reading and
// answering one request used to spend four tenths of its fuel on that. The host sets a
// module back after each call, so what one call takes is there again for the next.
//
// Nothing is handed out twice, and what is handed out is zero: values that outlive their
// call keep what they hold, and on a host that does not set modules back a supply that is
// used up is made anew, in portions. The host asks a module to describe itself before
// anything else; that is when [Fill] makes the supplies full.
//
// Like all of a module, supplies serve one goroutine at a time.
package room
