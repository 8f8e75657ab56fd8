//go:build !linux

package compiler

import (
	"errors"
	"os"
	"time"
)

// limit fails: components run on Linux.
func limit(time.Duration, int64) error {
	return errors.New("a child process is limited on Linux only")
}

func onCPULimit(func()) {}

func isKilled(*os.ProcessState) bool { return false }

func usageOf(state *os.ProcessState) Usage {
	return Usage{CPU: state.UserTime() + state.SystemTime()}
}
