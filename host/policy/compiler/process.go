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

// Process compiles modules in child processes.
type Process struct {
	// Path of the program, and the Args with which it runs [Child]; the arguments that
	// Child reads are appended.
	Path string
	Args []string
	// Observe is given what each child has used; may be nil.
	Observe func(Usage)
}

// Usage is what a child has used.
type Usage struct {
	// CPU time, user and system.
	CPU time.Duration
	// MemoryBytes is the most memory that it had at once, that of the program included.
	MemoryBytes int64
}

// patience bounds the time of a child on a clock: a machine under load gives it a part of a
// processor only.
const patience = 2 * time.Minute

// maxOutput bounds what is kept of a child's standard error.
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
	cmd.Env = []string{} // nothing of the component's environment is the compiler's business
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
		return judge(err, cmd.ProcessState, used, budget, stderr.String())
	}
	return checkSize(dir, budget)
}

// judge says why a child failed: the module is not valid, or needs too much; all else is
// ours or the machine's.
func judge(err error, state *os.ProcessState, used Usage, budget Budget, said string) error {
	switch {
	case state == nil:
		return fmt.Errorf("starting a child process to compile in: %w", err)
	case state.ExitCode() == exitInvalid:
		return engine.Refuse(errors.New(said))
	case isKilled(state) && used.CPU >= budget.CPU-cpuGranularity:
		return engine.Refuse(fmt.Errorf("%w CPU time, more than %s; its author must split up its largest functions", engine.ErrBudget, budget.CPU))
	case state.ExitCode() == exitCrashed && (strings.Contains(said, "out of memory") || strings.Contains(said, "cannot allocate memory")):
		return engine.Refuse(fmt.Errorf("%w memory, more than %d MiB; its author must split up its largest functions", engine.ErrBudget, budget.MemoryBytes>>20))
	case state.ExitCode() == exitCrashed && strings.Contains(said, "panic: "):
		return engine.Refuse(fmt.Errorf("the compiler crashed on the module (%s); its author must report this to Longshore, and can build it with another compiler", firstLine(said)))
	default:
		return fmt.Errorf("compiling in a child process: %w: %s", err, firstLine(said))
	}
}

// cpuGranularity is by how much the kernel's account of a limit may differ from ours.
const cpuGranularity = 250 * time.Millisecond

// checkSize refuses a module that becomes too much machine code: each component keeps it.
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

// head keeps the beginning of what is written, up to maxOutput, and drops the rest.
type head struct{ bytes.Buffer }

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), max(0, maxOutput-h.Len()))])
	return len(p), nil
}
