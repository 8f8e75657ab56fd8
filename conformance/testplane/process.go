package testplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// tailBytes is how much of a log is read to show its end.
	tailBytes = 32 << 10
	// tailWidth is where lines of a log are cut: some hold a stack.
	tailWidth = 400
	// errorLines is how much of a log an error shows.
	errorLines = 12
)

// process is one running child with its log.
type process struct {
	name    string
	command *exec.Cmd
	// stdin is our end of the pipe whose end ends the child; nil when it is detached.
	stdin *os.File
	log   string
	// done is closed when the child has ended; err is its exit error.
	done chan struct{}
	err  error
}

// spawn describes a child.
type spawn struct {
	name   string
	binary string
	args   []string // of the subcommand, its name first
	env    []string // in addition to ours
	log    string
	detach bool
}

// start runs a child. Unless it is detached the child ends when this process does, also
// when that is killed: it watches a pipe of which we hold the other end. It is in a
// process group of its own, so that Ctrl-C reaches us only and we stop it in order.
func start(s spawn) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(s.log), 0o700); err != nil {
		return nil, fmt.Errorf("creating the log folder: %w", err)
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	p := &process{name: s.name, log: s.log, done: make(chan struct{})}
	args := s.args
	var childStdin *os.File
	if !s.detach {
		args = append([]string{"--exit-with-stdin"}, args...)
		if childStdin, p.stdin, err = os.Pipe(); err != nil {
			return nil, fmt.Errorf("creating a pipe: %w", err)
		}
		defer childStdin.Close()
	}
	// Not CommandContext: how a cluster ends is Stop's business, not a context's.
	p.command = exec.Command(s.binary, args...)
	p.command.Env = environment(os.Environ(), s.env)
	if childStdin != nil {
		p.command.Stdin = childStdin
	}
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: !s.detach, Setsid: s.detach}
	if err := p.command.Start(); err != nil {
		p.closeStdin()
		return nil, fmt.Errorf("starting %s: %w", s.name, err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.done)
	}()
	return p, nil
}

// environment returns the environment of a child. With the default of 100, an API server spends
// 40 % of its start and of the installation of CRDs collecting garbage.
func environment(own, added []string) []string {
	isSet := slices.ContainsFunc(own, func(variable string) bool { return strings.HasPrefix(variable, "GOGC=") })
	if !isSet {
		own = append(slices.Clone(own), "GOGC=400")
	}
	return slices.Concat(own, added)
}

func (p *process) pid() int { return p.command.Process.Pid }

func (p *process) closeStdin() {
	if p.stdin != nil {
		// The only error is that it was closed before.
		_ = p.stdin.Close()
	}
}

// ended reports whether the child has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// state describes whether the child runs, or how it ended.
func (p *process) state() string {
	if !p.ended() {
		return "running"
	}
	if p.err != nil {
		return "ended: " + p.err.Error()
	}
	return "ended: exit status 0"
}

// diagnosis is the state of the child and the end of its log.
func (p *process) diagnosis(lines int) string {
	return fmt.Sprintf("%s (pid %d) %s; the end of its log %s:\n%s", p.name, p.pid(), p.state(), p.log, tail(p.log, lines))
}

// stop asks the child to end, and ends it without asking when ctx or grace is over.
func (p *process) stop(ctx context.Context, grace time.Duration) error {
	defer p.closeStdin()
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.kill()
}

// kill ends the child at once and waits until it is gone.
func (p *process) kill() error {
	defer p.closeStdin()
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

func (p *process) signal(s os.Signal) error {
	err := p.command.Process.Signal(s)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to %s (pid %d): %w", s, p.name, p.pid(), err)
	}
	return nil
}

// tail returns the last lines of a log, or the error of reading them.
func tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	from := max(0, info.Size()-tailBytes)
	content := make([]byte, info.Size()-from)
	n, err := file.ReadAt(content, from)
	if err != nil && n == 0 {
		return fmt.Sprintf("(the log is empty: %v)", err)
	}
	all := strings.Split(strings.TrimRight(string(content[:n]), "\n"), "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		if len(line) > tailWidth {
			all[i] = line[:tailWidth] + " …"
		}
	}
	return "\t" + strings.Join(all, "\n\t")
}
