package session

import (
	"bufio"
	"os"
	"os/exec"
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
		if _, err = s.LockSupervisor(); err == nil {
			err = s.Write(State{PID: os.Getpid(), Ready: true})
		}
	}
	if err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("ready\n")
	select {}
}

func start(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "SESSION_TEST_SUPERVISOR="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return cmd
}

func TestStopEndsALivingSupervisorAndNothingElse(t *testing.T) {
	s, err := Open(t.TempDir())
	require.NoError(t, err)
	cmd := start(t, s.Dir())
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
	assert.NoDirExists(t, s.DataDir())
	assert.DirExists(t, s.LogDir(), "logs stay")
}

func TestAKilledSupervisorIsNotAliveAndLeavesNoWayBack(t *testing.T) {
	s, err := Open(t.TempDir())
	require.NoError(t, err)
	cmd := start(t, s.Dir())
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	alive, _, err := s.Alive()
	require.NoError(t, err)
	assert.False(t, alive)

	// Its process ID is in the file still; it may be somebody else's by now and is never signaled.
	require.NoError(t, s.Write(State{PID: os.Getpid(), Ready: true}))
	stopped, err := s.Stop(t.Context())
	require.NoError(t, err)
	assert.False(t, stopped)
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
