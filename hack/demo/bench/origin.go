package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// origin is what was measured, when and where.
type origin struct {
	commit, date, machine string
}

// newOrigin describes the clone in the working directory and this machine.
func newOrigin(ctx context.Context) (origin, error) {
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=-modified").Output()
	if err != nil {
		return origin{}, fmt.Errorf("running git describe: %w", err)
	}
	machine, err := describeMachine()
	return origin{commit: strings.TrimSpace(string(commit)), date: time.Now().UTC().Format(time.DateOnly), machine: machine}, err
}

// describeMachine names the processors, the memory and the kernel.
func describeMachine() (string, error) {
	processors, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", fmt.Errorf("reading the processors: %w", err)
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "", fmt.Errorf("reading the memory: %w", err)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("reading the kernel's version: %w", err)
	}
	model := procField(bytes.NewReader(processors), "model name")
	if model == "" {
		model = runtime.GOARCH
	}
	kib, err := strconv.ParseFloat(strings.TrimSuffix(procField(bytes.NewReader(memory), "MemTotal"), " kB"), 64)
	if err != nil {
		return "", fmt.Errorf("reading the memory: %w", err)
	}
	return fmt.Sprintf("%d x %s, %.0f GiB, Linux %s", runtime.NumCPU(), model, kib/(1<<20), unix.ByteSliceToString(name.Release[:])), nil
}

// procField returns the first value of a name in a file of /proc, empty if there is none.
func procField(file io.Reader, name string) string {
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
