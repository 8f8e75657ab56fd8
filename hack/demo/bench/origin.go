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
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// modifiedSuffix marks the commit of a working tree with changes: a later run cannot know
// what was measured.
const modifiedSuffix = "-modified"

// measuredPaths are git's patterns of the files on which figures depend.
var measuredPaths = []string{"--", ".", ":(exclude)docs", ":(exclude)bench", ":(exclude)*.md"}

// origin is what was measured, when and where.
type origin struct {
	commit, date, machine string
}

// newOrigin describes the clone in the working directory and this machine.
func newOrigin(ctx context.Context) (origin, error) {
	commit, err := git(ctx, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return origin{}, err
	}
	changes, err := git(ctx, append([]string{"status", "--porcelain", "--untracked-files=no"}, measuredPaths...)...)
	if err != nil {
		return origin{}, err
	}
	if changes != "" {
		commit += modifiedSuffix
	}
	machine, err := describeMachine()
	return origin{commit: commit, date: time.Now().UTC().Format(time.DateOnly), machine: machine}, err
}

// measuresSameCode reports whether a figure of that commit would be measured with the same
// code today.
func measuresSameCode(ctx context.Context, commit string) bool {
	_, err := git(ctx, append([]string{"diff", "--quiet", commit}, measuredPaths...)...)
	return err == nil
}

func git(ctx context.Context, arguments ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", arguments...).Output()
	if err != nil {
		return "", fmt.Errorf("running git %s: %w", arguments[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// dropStale keeps the results of this machine and of the code that is measured today.
func dropStale(known []Result, now origin, isSameCode func(commit string) bool) []Result {
	same := map[string]bool{"": false}
	return slices.DeleteFunc(known, func(r Result) bool {
		if _, asked := same[r.Commit]; !asked {
			same[r.Commit] = isSameCode(r.Commit)
		}
		return !same[r.Commit] || r.Date == "" || r.Machine != now.machine
	})
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
