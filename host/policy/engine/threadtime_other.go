//go:build !linux

package engine

import "time"

var processBegan = time.Now()

// threadTime is the time on the wall, where that of a thread is not known.
func threadTime() time.Duration { return time.Since(processBegan) }
