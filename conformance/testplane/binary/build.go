package binary

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	progressEvery = 15 * time.Second
	// unusedFor is the age after which another revision's build is removed.
	unusedFor   = 14 * 24 * time.Hour
	failureTail = 30 // lines of go's output shown when it fails
)

// Build builds the test plane unless it is there, and returns its path. Lines about its
// progress go to messages. Builds of one user wait for each other, also across clones:
// the second finds the first's result, and two linkers at once need 6 GB.
func Build(ctx context.Context, messages io.Writer) (string, error) {
	t, err := newTarget(ctx)
	if err != nil {
		return "", err
	}
	if t.exists() {
		return t.path(), nil
	}
	if err := os.MkdirAll(t.cache, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache folder: %w", err)
	}
	release, err := lock(ctx, filepath.Join(t.cache, "build.lock"), messages)
	if err != nil {
		return "", err
	}
	defer release()
	if t.exists() {
		return t.path(), nil
	}
	if err := t.build(ctx, messages); err != nil {
		return "", err
	}
	t.prune(messages)
	return t.path(), nil
}

// build compiles into a temporary folder beside the result and renames, so that the
// result is whole or absent.
func (t *target) build(ctx context.Context, messages io.Writer) error {
	temporary, err := os.MkdirTemp(t.cache, "building-")
	if err != nil {
		return fmt.Errorf("creating a temporary folder: %w", err)
	}
	defer func() {
		if err := os.RemoveAll(temporary); err != nil {
			fmt.Fprintf(messages, "test plane: removing %s: %v\n", temporary, err)
		}
	}()
	began := time.Now()
	fmt.Fprintln(messages, "test plane: building the Kubernetes control plane, once per revision; with an empty build cache this takes 7 to 9 minutes on 2 idle cores")
	command := exec.CommandContext(ctx, "go", append(t.buildArgs(), "-v", "-o", filepath.Join(temporary, fileName), ".")...)
	command.Dir, command.Env = t.source, buildEnv()
	// An interrupt ends the go command in order, and with it the compilers it started.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	if err := runWithProgress(command, began, messages); err != nil {
		return fmt.Errorf("building the test plane: %w", err)
	}
	if err := os.MkdirAll(t.dir(), 0o755); err != nil {
		return fmt.Errorf("creating the build's folder: %w", err)
	}
	if err := os.Rename(filepath.Join(temporary, fileName), t.path()); err != nil {
		return fmt.Errorf("putting the test plane in its place: %w", err)
	}
	fmt.Fprintf(messages, "test plane: built in %s: %s\n", time.Since(began).Round(time.Second), t.path())
	return nil
}

// runWithProgress runs `go build -v`, which names each package on a line of its own,
// and turns that into a line now and then.
func runWithProgress(command *exec.Cmd, began time.Time, messages io.Writer) error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("creating a pipe: %w", err)
	}
	defer reader.Close()
	command.Stdout, command.Stderr = writer, writer
	err = command.Start()
	writer.Close()
	if err != nil {
		return fmt.Errorf("starting go: %w", err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(reader)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var packages, downloads int
	var tail []string
	for open := true; open; {
		select {
		case line, ok := <-lines:
			open = ok
			switch {
			case !ok:
			case strings.HasPrefix(line, "go: downloading"):
				downloads++
			case strings.ContainsAny(line, " \t#"):
				tail = append(tail, line)
				tail = tail[max(0, len(tail)-failureTail):]
			default:
				packages++
			}
		case <-tick.C:
			fmt.Fprintf(messages, "test plane: %s, %d modules downloaded, %d packages compiled\n",
				time.Since(began).Round(time.Second), downloads, packages)
		}
	}
	if err := command.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(tail, "\n"))
	}
	return nil
}

// lock takes the file lock at path, which the kernel frees when this process ends.
func lock(ctx context.Context, path string, messages io.Writer) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the build lock: %w", err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for reported := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("taking the build lock %s: %w", path, err)
		}
		if !reported {
			fmt.Fprintf(messages, "test plane: another build is running (lock %s), waiting for it\n", path)
			reported = true
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("waiting for another build: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// prune removes builds that were not used for a long time, and the remains of interrupted
// builds. It runs under the build lock.
func (t *target) prune(messages io.Writer) {
	entries, err := os.ReadDir(t.cache)
	if err != nil {
		fmt.Fprintf(messages, "test plane: looking for old builds: %v\n", err)
		return
	}
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == t.key {
			continue
		}
		dir := filepath.Join(t.cache, entry.Name())
		abandoned := strings.HasPrefix(entry.Name(), "building-")
		if info, err := os.Stat(filepath.Join(dir, fileName)); !abandoned && (err != nil || time.Since(info.ModTime()) < unusedFor) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintf(messages, "test plane: removing an old build: %v\n", err)
		}
	}
}
