//go:build !linux

package engine

import "time"

var processStart = time.Now()

// threadTime returns elapsed time where the CPU time of a thread is not known.
func threadTime() time.Duration { return time.Since(processStart) }
