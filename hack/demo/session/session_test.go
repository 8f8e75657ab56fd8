package session

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary play the supervisor in a process of its own.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SESSION_TEST_SUPERVISOR"); dir != "" {
		supervise(dir)
	}
	os.Exit(m.Run())
}

func supervise(dir string) {
	s, err := Open(dir)
	if err == nil {
		_, err = s.InheritSupervisor(os.NewFile(3, "lock"))
	}
	// It writes its state only on request, as late as on a busy machine.
	if err == nil {
		_, _ = os.Stdout.WriteString("inherited\n")
		_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	}
	// The child ends a moment after its supervisor, as a control plane does.
	child := exec.Command("sh", "-c", "read -r line; sleep 0.5")
	if err == nil {
		_, err = child.StdinPipe()
	}
	if err == nil {
		err = child.Start()
	}
	if err == nil {
		err = s.Write(State{PID: os.Getpid(), Ready: true})
	}
	if err != nil {
		_, _ = os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	_, _ = fmt.Fprintln(os.Stdout, child.Process.Pid)
	select {}
}

// supervisor is one in a process of its own.
type supervisor struct {
	*exec.Cmd
	t     *testing.T
	input io.Writer
	out   *bufio.Reader
	// child is the process that the supervisor starts.
	child int
}

// start starts a supervisor with its lock, as `make demo` does.
func start(t *testing.T, s *Session) *supervisor {
	t.Helper()
	lock, err := s.LockSupervisor()
	require.NoError(t, err)
	require.NoError(t, s.Write(State{}))
	c := &supervisor{Cmd: exec.CommandContext(t.Context(), os.Args[0]), t: t}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Env, c.ExtraFiles = append(os.Environ(), "SESSION_TEST_SUPERVISOR="+s.Dir()), []*os.File{lock.File()}
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewReader(out)
	c.input, err = c.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	require.NoError(t, lock.Release())
	return c
}

// introduce makes it write its state.
func (c *supervisor) introduce() {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	require.NoError(c.t, err)
	require.Equal(c.t, "inherited\n", line)
	_, err = io.WriteString(c.input, "\n")
	require.NoError(c.t, err)
	line, err = c.out.ReadString('\n')
	require.NoError(c.t, err)
	c.child, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(c.t, err, line)
	c.t.Cleanup(func() { _ = syscall.Kill(c.child, syscall.SIGKILL) })
}

func alive(t *testing.T, s *Session) bool {
	t.Helper()
	alive, _, err := s.Alive()
	require.NoError(t, err)
	return alive
}

func TestStopEndsALivingSupervisorAndNothingElse(t *testing.T) {
	s, err := Open(t.TempDir())
	require.NoError(t, err)
	cmd := start(t, s)
	cmd.introduce()
	require.NoError(t, os.MkdirAll(s.DataDir(), 0o755))
	alive, state, err := s.Alive()
	require.NoError(t, err)
	assert.True(t, alive)
	assert.Equal(t, cmd.Process.Pid, state.PID)

	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	stopped, err := s.Stop(t.Context())
	require.NoError(t, err)
	assert.True(t, stopped)
	assert.Error(t, <-done, "ended by a signal")
	assert.NotContains(t, sessionProcesses(cmd.Process.Pid), cmd.child, "what the supervisor started has ended as well")
	assert.NoDirExists(t, s.DataDir())
	assert.DirExists(t, s.LogDir(), "logs stay")
}

func TestAKilledSupervisorIsNotAliveAndLeavesNoWayBack(t *testing.T) {
	s, err := Open(t.TempDir())
	require.NoError(t, err)
	cmd := start(t, s)
	cmd.introduce()
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	assert.False(t, alive(t, s), "and its own children, which live on for a moment, do not count")

	// Its process ID is in the file still; it may be that of another process by now and is never signaled.
	require.NoError(t, s.Write(State{PID: os.Getpid(), Ready: true}))
	stopped, err := s.Stop(t.Context())
	require.NoError(t, err)
	assert.False(t, stopped)
}

func TestASupervisorIsAliveFromItsBirthOnAndStopWaitsForItsName(t *testing.T) {
	s, err := Open(t.TempDir())
	require.NoError(t, err)
	assert.False(t, alive(t, s))
	cmd := start(t, s)
	assert.True(t, alive(t, s), "it has not run a line of its own, maybe")

	done := make(chan error, 1)
	stopping := make(chan error, 1)
	go func() {
		_, err := s.Stop(t.Context())
		stopping <- err
	}()
	cmd.introduce()
	go func() { done <- cmd.Wait() }()
	require.NoError(t, <-stopping)
	assert.Error(t, <-done, "ended by a signal")
	assert.False(t, alive(t, s))
}

func TestAskingTakesNoLock(t *testing.T) {
	s, err := Open(t.TempDir())
	require.NoError(t, err)
	asking, stop := context.WithCancel(t.Context())
	var asked sync.WaitGroup
	for range 4 {
		asked.Go(func() {
			for asking.Err() == nil {
				if _, _, err := s.Alive(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2000 {
		lock, err := s.LockSupervisor()
		if !assert.NoError(t, err) {
			break
		}
		assert.NoError(t, lock.Release())
	}
	stop()
	asked.Wait()
}

func TestOnlyTheLockIsInherited(t *testing.T) {
	s, err := Open(t.TempDir())
	require.NoError(t, err)
	lock, err := s.LockSupervisor()
	require.NoError(t, err)
	require.NoError(t, lock.Release())
	other, err := os.Create(filepath.Join(s.Dir(), "other"))
	require.NoError(t, err)
	_, err = s.InheritSupervisor(other)
	require.ErrorContains(t, err, "another one")
	require.NoError(t, other.Close())
	_, err = s.InheritSupervisor(other)
	require.Error(t, err, "a file that is not open")

	first, err := s.LockSupervisor()
	require.NoError(t, err)
	second, err := os.Open(filepath.Join(s.Dir(), lockFile))
	require.NoError(t, err)
	_, err = s.InheritSupervisor(second)
	require.Error(t, err, "opened anew, not inherited")
	require.NoError(t, second.Close())
	require.NoError(t, first.Release())
}

func TestOnlyOneDemoAtATime(t *testing.T) {
	s, err := Open(t.TempDir())
	require.NoError(t, err)
	first, err := s.LockUp()
	require.NoError(t, err)
	_, err = s.LockUp()
	require.ErrorIs(t, err, ErrBusy)
	require.NoError(t, first.Release())
	second, err := s.LockUp()
	require.NoError(t, err)
	require.NoError(t, second.Release())
}
