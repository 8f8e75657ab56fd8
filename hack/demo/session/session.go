// Package session finds the demo that runs in a clone, and ends it.
//
// The supervisor holds a file lock for as long as it lives; the kernel releases it however
// the supervisor ends. So the supervisor is never mistaken for another process that has its
// process ID by now. The command that starts the supervisor takes the lock and passes it on,
// so that there is no moment in which the supervisor runs without it. The locks belong to
// open file descriptions (fcntl, F_OFD_SETLK): they are inherited, and they can be tested
// without being taken.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockFile  = "supervisor.lock"
	stateFile = "supervisor.json"
	upFile    = "up.lock"

	stopPatience = 20 * time.Second
	pollEvery    = 50 * time.Millisecond
)

// ErrBusy is returned if another process holds a lock.
var ErrBusy = errors.New("held by another process")

// State is written by the supervisor.
type State struct {
	PID int `json:"pid"`
	// Step is what the supervisor is doing, for people.
	Step string `json:"step,omitempty"`
	// Ready means that both clusters run.
	Ready bool `json:"ready"`
	// Error is the reason why the supervisor gave up.
	Error string `json:"error,omitempty"`
	// Clusters are the kubeconfig files by cluster name.
	Clusters map[string]string `json:"clusters,omitempty"`
}

// Lock is a held file lock.
type Lock struct{ file *os.File }

// Release lets go of the lock.
func (l *Lock) Release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("releasing %s: %w", l.file.Name(), err)
	}
	return nil
}

// File is to be handed to the child that shall hold the lock, too.
func (l *Lock) File() *os.File { return l.file }

func acquire(path string) (*Lock, error) {
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := lock(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Lock{file: file}, nil
}

func open(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock %s: %w", path, err)
	}
	return file, nil
}

// exclusive is a lock of a whole file.
func exclusive() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart} }

// lock takes the lock of a file; whose description has it already keeps it.
func lock(file *os.File) error {
	err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, exclusive())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrBusy
	}
	if err != nil {
		return fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return nil
}

// held reports whether a process holds the lock. It does not take the lock, so that it never
// blocks a process that needs it.
func held(path string) (bool, error) {
	file, err := open(path)
	if err != nil {
		return false, err
	}
	question := exclusive()
	err = errors.Join(unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, question), file.Close())
	if err != nil {
		return false, fmt.Errorf("testing the lock %s: %w", path, err)
	}
	return question.Type != unix.F_UNLCK, nil
}

// Session is the demo of one clone.
type Session struct{ dir string }

// Open makes the demo's folder.
func Open(dir string) (*Session, error) {
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		return nil, fmt.Errorf("making the demo's folder: %w", err)
	}
	return &Session{dir: dir}, nil
}

// Dir is the demo's folder.
func (s *Session) Dir() string { return s.dir }

// LogDir holds the logs.
func (s *Session) LogDir() string { return filepath.Join(s.dir, "logs") }

// DataDir holds what the clusters store; it goes when the demo ends.
func (s *Session) DataDir() string { return filepath.Join(s.dir, "data") }

// LockUp makes sure that only one `make demo` works on a clone at a time.
func (s *Session) LockUp() (*Lock, error) { return acquire(filepath.Join(s.dir, upFile)) }

// LockSupervisor takes the supervisor's lock; the command that starts the supervisor passes
// it on.
func (s *Session) LockSupervisor() (*Lock, error) { return acquire(filepath.Join(s.dir, lockFile)) }

// InheritSupervisor is the supervisor's side: the file that it was given is the lock,
// which it holds for its life. Its own children do not get it.
func (s *Session) InheritSupervisor(file *os.File) (*Lock, error) {
	const help = "inheriting the supervisor's lock (`make demo` starts supervisors): %w"
	given, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf(help, err)
	}
	want, err := os.Stat(filepath.Join(s.dir, lockFile))
	if err != nil {
		return nil, fmt.Errorf(help, err)
	}
	if !os.SameFile(given, want) {
		return nil, fmt.Errorf(help, errors.New("the file given is another one"))
	}
	syscall.CloseOnExec(int(file.Fd()))
	if err := lock(file); err != nil {
		return nil, fmt.Errorf(help, err)
	}
	return &Lock{file: file}, nil
}

// Alive reports whether a supervisor lives, and its state.
func (s *Session) Alive() (bool, State, error) {
	alive, err := held(filepath.Join(s.dir, lockFile))
	if err != nil || !alive {
		return false, State{}, err
	}
	state, err := s.Read()
	return true, state, err
}

// Read returns the last state that was written; none is the zero state.
func (s *Session) Read() (State, error) {
	var state State
	content, err := os.ReadFile(filepath.Join(s.dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("reading the demo's state: %w", err)
	}
	if err := json.Unmarshal(content, &state); err != nil {
		return state, fmt.Errorf("reading the demo's state: %w", err)
	}
	return state, nil
}

// Write replaces the state, all or nothing.
func (s *Session) Write(state State) error {
	content, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encoding the demo's state: %w", err)
	}
	path := filepath.Join(s.dir, stateFile)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return fmt.Errorf("writing the demo's state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the demo's state: %w", err)
	}
	return nil
}

// Stop ends a living supervisor, politely first, and removes what the clusters stored.
// It reports whether there was anything to stop.
func (s *Session) Stop(ctx context.Context) (bool, error) {
	alive, pid, err := s.identify(ctx)
	if err != nil {
		return alive, err
	}
	if alive {
		if err := s.terminate(ctx, pid); err != nil {
			return true, err
		}
	}
	return alive, s.clean()
}

// identify waits until a living supervisor has written its process ID: it does so some time
// after its start.
func (s *Session) identify(ctx context.Context) (alive bool, pid int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stopPatience, errors.New("a supervisor runs and has not written its process ID"))
	defer cancel()
	for {
		alive, state, err := s.Alive()
		if err != nil || !alive || state.PID > 1 {
			return alive, state.PID, err
		}
		if err := pause(ctx); err != nil {
			return true, 0, err
		}
	}
}

// pause is between two looks at the lock.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pollEvery):
		return nil
	}
}

// terminate ends the supervisor and returns when every process of its session has ended.
// The lock does not show that: the supervisor releases it before its process ends, and the
// processes that it started end after a supervisor that was killed.
func (s *Session) terminate(ctx context.Context, pid int) error {
	deadline := time.Now().Add(stopPatience)
	signal, targets := syscall.SIGTERM, []int{pid}
	for {
		for _, target := range targets {
			if err := syscall.Kill(target, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("sending %v to process %d of the demo: %w", signal, target, err)
			}
		}
		for time.Now().Before(deadline) {
			if len(sessionProcesses(pid)) == 0 {
				return nil
			}
			if err := pause(ctx); err != nil {
				return err
			}
		}
		if signal == syscall.SIGKILL {
			return fmt.Errorf("processes of the demo do not end: %v", targets)
		}
		// What is left keeps the number of its session: no other process gets it.
		signal, targets, deadline = syscall.SIGKILL, sessionProcesses(pid), time.Now().Add(stopPatience)
	}
}

// clean removes what a dead supervisor left, logs excepted.
func (s *Session) clean() error {
	for _, name := range []string{s.DataDir(), filepath.Join(s.dir, stateFile)} {
		if err := os.RemoveAll(name); err != nil {
			return fmt.Errorf("removing what the demo stored: %w", err)
		}
	}
	entries, err := filepath.Glob(filepath.Join(s.dir, "*.kubeconfig"))
	if err != nil {
		return fmt.Errorf("listing kubeconfigs: %w", err)
	}
	for _, name := range entries {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("removing a kubeconfig: %w", err)
		}
	}
	return nil
}
