//go:build !linux

package compiler

import (
	"errors"
	"os"
	"time"

	"github.com/longshore-dev/longshore/host/policy/engine"
)

// Own returns nil, with which modules are compiled without limits: components run on Linux.
func Own() engine.Compiler { return nil }

// limit fails: components run on Linux.
func limit(time.Duration, int64) error {
	return errors.New("a child process is limited on Linux only")
}

func onCPULimit(func()) {}

func isKilled(*os.ProcessState) bool { return false }

func usageOf(state *os.ProcessState) Usage {
	return Usage{CPU: state.UserTime() + state.SystemTime()}
}
