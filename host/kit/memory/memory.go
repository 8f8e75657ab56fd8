// Package memory keeps the memory of processes low that cache objects of a cluster.
package memory

import (
	"os"
	"runtime/debug"
)

// gcPercent trades processor time for memory: most of the heap is scheme and caches,
// which hardly change and which the default of 100 would let double.
const gcPercent = 50

// ReduceGarbage lowers the garbage collector's target, unless the environment sets it.
func ReduceGarbage() {
	if os.Getenv("GOGC") == "" { //nolint:forbidigo // The Go runtime reads it, too.
		debug.SetGCPercent(gcPercent)
	}
}
