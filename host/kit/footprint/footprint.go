// Package footprint gives memory back that starting has left behind.
package footprint

import "runtime/debug"

// Shrink returns free heap to the system, and drops the pages of the executable that are
// mapped because code ran once. Pages that are needed again come back from the page
// cache; that costs microseconds each. Call it once, when a process has settled.
func Shrink() error {
	debug.FreeOSMemory()
	return dropExecutable()
}
