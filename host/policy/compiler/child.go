package compiler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/longshore-dev/longshore/host/policy/engine"
	"github.com/longshore-dev/longshore/sdk/contract"
)

// Exit codes of a child.
const (
	exitDone = 0
	// exitFailed: the host or the machine failed, not the module.
	exitFailed = 1
	// exitCrashed is what the Go runtime exits with after a panic, and when it gets no more
	// memory.
	exitCrashed = 2
	// exitInvalid: the module is not valid; standard error has the reason.
	exitInvalid = 3
	// exitTooLong: the limit of CPU time was reached.
	exitTooLong = 4
)

// maxModuleBytes bounds what a child reads: metering makes a module larger.
const maxModuleBytes = 4 * contract.MaxModuleBytes

// Child is the main function of a child process. It reads a metered module and compiles it
// into a directory, under limits: args are the seconds of CPU time, the bytes of memory and
// the directory. It returns the exit code of the process, unless a limit ends that before.
func Child(ctx context.Context, args []string, stdin io.Reader, stderr io.Writer) int {
	err := compile(ctx, args, stdin)
	switch {
	case err == nil:
		return exitDone
	case engine.AtFault(err):
		_, _ = fmt.Fprint(stderr, err)
		return exitInvalid
	default:
		_, _ = fmt.Fprint(stderr, err)
		return exitFailed
	}
}

func compile(ctx context.Context, args []string, stdin io.Reader) error {
	const wanted = 3
	if len(args) != wanted {
		return fmt.Errorf("a child that compiles has %d arguments, not %d", len(args), wanted)
	}
	seconds, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil {
		return fmt.Errorf("parsing the seconds %q: %w", args[0], err)
	}
	memory, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return fmt.Errorf("parsing the bytes of memory %q: %w", args[1], err)
	}
	onCPULimit(func() { os.Exit(exitTooLong) })
	if err := limit(time.Duration(seconds)*time.Second, memory); err != nil {
		return fmt.Errorf("limiting the process: %w", err)
	}
	// The garbage collector works harder before the limit is reached.
	debug.SetMemoryLimit(memory - memory/4)
	wasm, err := io.ReadAll(io.LimitReader(stdin, maxModuleBytes+1))
	if err != nil {
		return fmt.Errorf("reading the module: %w", err)
	}
	if len(wasm) > maxModuleBytes {
		return errors.New("the module is too large")
	}
	return engine.CompileTo(ctx, args[2], wasm)
}
