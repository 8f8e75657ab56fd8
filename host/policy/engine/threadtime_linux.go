package engine

import (
	"syscall"
	"time"
	"unsafe"
)

// threadTime is the processor's time that the thread has used.
func threadTime() time.Duration {
	const threadCPUTime = 3 // CLOCK_THREAD_CPUTIME_ID
	var now syscall.Timespec
	// It cannot fail for a clock that every Linux has; if it did, no time would pass.
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano())
}
