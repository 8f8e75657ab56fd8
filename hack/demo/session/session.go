// Package session knows whether a demo runs in a clone, who it is, and how to end it.
//
// The supervisor holds a file lock for as long as it lives; the kernel lets go of it
// whatever kills the supervisor. So "is it alive" is never a guess from a process ID
// that somebody else may have by now.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	lockFile  = "supervisor.lock"
	stateFile = "supervisor.json"
	upFile    = "up.lock"

	stopPatience = 20 * time.Second
	pollEvery    = 50 * time.Millisecond
)

// ErrBusy says that somebody else holds a lock.
var ErrBusy = errors.New("held by another process")

// State is what the supervisor tells about itself.
type State struct {
	PID int `json:"pid"`
	// Step is what the supervisor is doing, for people.
	Step string `json:"step,omitempty"`
	// Ready means that both clusters run.
	Ready bool `json:"ready"`
	// Error says why the supervisor gave up.
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

func acquire(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock %s: %w", path, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrBusy
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return &Lock{file: file}, nil
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

// LockSupervisor is taken by the supervisor, for its life.
func (s *Session) LockSupervisor() (*Lock, error) { return acquire(filepath.Join(s.dir, lockFile)) }

// Alive reports whether a supervisor lives, and what it says.
func (s *Session) Alive() (bool, State, error) {
	lock, err := s.LockSupervisor()
	if err == nil {
		return false, State{}, lock.Release()
	}
	if !errors.Is(err, ErrBusy) {
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
	alive, state, err := s.Alive()
	if err != nil {
		return false, err
	}
	if alive {
		if state.PID <= 1 {
			return false, errors.New("a supervisor runs but has not said who it is yet: try again in a moment")
		}
		if err := s.terminate(ctx, state.PID); err != nil {
			return true, err
		}
	}
	return alive, s.clean()
}

func (s *Session) terminate(ctx context.Context, pid int) error {
	deadline := time.Now().Add(stopPatience)
	signal := syscall.SIGTERM
	for {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping the supervisor (pid %d): %w", pid, err)
		}
		for time.Now().Before(deadline) {
			alive, _, err := s.Alive()
			if err != nil || !alive {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pollEvery):
			}
		}
		if signal == syscall.SIGKILL {
			return fmt.Errorf("the supervisor (pid %d) does not end", pid)
		}
		signal, deadline = syscall.SIGKILL, time.Now().Add(stopPatience)
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
