package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
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

// describeMachine names the processors.
func describeMachine() (string, error) {
	processors, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", fmt.Errorf("reading the processors: %w", err)
	}
	model := procField(processors, "model name")
	if model == "" {
		model = runtime.GOARCH
	}
	return fmt.Sprintf("%d x %s", runtime.NumCPU(), model), nil
}

// procField returns the first value of a name in a file of /proc, empty if there is none.
func procField(content []byte, name string) string {
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
