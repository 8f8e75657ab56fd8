package compiler

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/longshore-dev/longshore/host/policy/engine"
)

// rlimitData bounds the private writable memory of a process (RLIMIT_DATA).
const rlimitData = 2

// Own returns a compiler whose children run the binary of this process, even if its file has been
// replaced: compiled code fits no other.
func Own() engine.Compiler {
	return (&Process{Path: "/proc/self/exe", Args: []string{Argument}}).Compile
}

// limit sets the limits of CPU time, at which the process gets a signal and a second later is
// ended by the kernel, and of memory, above which allocations fail. If the machine runs out of
// memory, the kernel ends this process first, not the component that waits for it.
func limit(cpu time.Duration, memory int64) error {
	seconds := uint64(cpu / time.Second)
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: seconds, Max: seconds + 1}); err != nil {
		return fmt.Errorf("limiting CPU time: %w", err)
	}
	bytes := uint64(memory)
	if err := syscall.Setrlimit(rlimitData, &syscall.Rlimit{Cur: bytes, Max: bytes}); err != nil {
		return fmt.Errorf("limiting memory: %w", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("limiting core dumps: %w", err)
	}
	// A system without /proc loses this only.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	return nil
}

// onCPULimit calls a function when this process has reached its limit of CPU time. The kernel
// counts that time in its timer interrupts, so the usage that it reports later may be less.
func onCPULimit(end func()) {
	reached := make(chan os.Signal, 1)
	signal.Notify(reached, syscall.SIGXCPU)
	go func() {
		<-reached
		end()
	}()
}

// isKilled reports whether the kernel has ended a process, as it does a second after the limit of CPU
// time.
func isKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGXCPU)
}

func usageOf(state *os.ProcessState) Usage {
	used := Usage{CPU: state.UserTime() + state.SystemTime()}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		used.MemoryBytes = usage.Maxrss << 10
	}
	return used
}
