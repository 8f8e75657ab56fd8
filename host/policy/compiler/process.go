package compiler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/longshore-dev/longshore/host/policy/engine"
)

// Argument is the first argument with which a program of [Own] must run [Child], with the arguments
// that follow.
const Argument = "compile-policy"

// Process compiles modules in child processes.
type Process struct {
	// Path of the program, and the Args with which it runs [Child]; the arguments that
	// Child reads are appended.
	Path string
	Args []string
	// Observe is called with the usage of each child. Optional.
	Observe func(Usage)
}

// Usage is the resources that a child has used.
type Usage struct {
	// CPU time, user and system.
	CPU time.Duration
	// MemoryBytes is the peak of its memory, including the program.
	MemoryBytes int64
}

// patience bounds the elapsed time of a child, which gets only a part of a processor on a
// busy machine.
const patience = 2 * time.Minute

// maxOutput bounds the recorded standard error of a child.
const maxOutput = 8 << 10

// Compile implements [engine.Compiler]. The child ends with the context.
func (p *Process) Compile(ctx context.Context, wasm []byte, dir string) error {
	budget := BudgetOf(len(wasm))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args := append(append([]string(nil), p.Args...), strconv.Itoa(int(budget.CPU/time.Second)), strconv.FormatInt(budget.MemoryBytes, 10), dir)
	cmd := exec.CommandContext(ctx, p.Path, args...)
	stderr := &head{}
	cmd.Stdin, cmd.Stderr = bytes.NewReader(wasm), stderr
	cmd.Env = []string{} // the environment may hold secrets
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var used Usage
	if cmd.ProcessState != nil {
		used = usageOf(cmd.ProcessState)
		if p.Observe != nil {
			p.Observe(used)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("compiling in a child process: %w", ctx.Err())
	}
	if err != nil {
		return classify(err, cmd.ProcessState, used, budget, stderr.String())
	}
	return checkSize(dir, budget)
}

// classify returns the reason why a child failed: the module is invalid or exceeds its
// budget, otherwise the host or the machine failed.
func classify(err error, state *os.ProcessState, used Usage, budget Budget, stderr string) error {
	switch {
	case state == nil:
		return fmt.Errorf("starting a child process to compile in: %w", err)
	case state.ExitCode() == exitInvalid:
		return engine.Refuse(errors.New(stderr))
	case state.ExitCode() == exitTooLong, isKilled(state) && used.CPU >= budget.CPU-cpuGranularity:
		return engine.Refuse(fmt.Errorf("%w CPU time, more than %s; its author must split up its largest functions", engine.ErrBudget, budget.CPU))
	case state.ExitCode() == exitCrashed && (strings.Contains(stderr, "out of memory") || strings.Contains(stderr, "cannot allocate memory")):
		return engine.Refuse(fmt.Errorf("%w memory, more than %d MiB; its author must split up its largest functions", engine.ErrBudget, budget.MemoryBytes>>20))
	case state.ExitCode() == exitCrashed && strings.Contains(stderr, "panic: "):
		return engine.Refuse(fmt.Errorf("the compiler crashed on the module (%s); its author must report this to Longshore, and can build it with another compiler", firstLine(stderr)))
	default:
		return fmt.Errorf("compiling in a child process: %w: %s", err, firstLine(stderr))
	}
}

// cpuGranularity is the difference between the kernel's accounting of a limit and ours.
const cpuGranularity = 250 * time.Millisecond

// checkSize refuses a module with too much machine code, which each component holds.
func checkSize(dir string, budget Budget) error {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		size += info.Size()
		return nil
	})
	if err != nil {
		return fmt.Errorf("measuring compiled code: %w", err)
	}
	if size > budget.CodeBytes {
		return engine.Refuse(fmt.Errorf("%w space: %d bytes of machine code, more than %d; its author must split up its largest functions", engine.ErrBudget, size, budget.CodeBytes))
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// head records the first maxOutput bytes that are written.
type head struct{ bytes.Buffer }

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), max(0, maxOutput-h.Len()))])
	return len(p), nil
}
