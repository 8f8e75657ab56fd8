package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the CPU time of the thread.
func threadTime() time.Duration {
	var now unix.Timespec
	// It cannot fail for a clock that every Linux has. If it did, no time would pass.
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	return time.Duration(now.Nano())
}
