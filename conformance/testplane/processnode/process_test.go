package processnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	patient = time.Minute
	soon    = 10 * time.Millisecond
)

func shell(script string) Program { return Program{Path: "/bin/sh", Args: []string{"-c", script}} }

func run(t *testing.T, script string) (*process, string) {
	t.Helper()
	spawn := newSpawner()
	t.Cleanup(spawn.close)
	log := filepath.Join(t.TempDir(), "logs", "c.log")
	p, err := spawn.start(shell(script), []string{"PATH=" + os.Getenv("PATH"), "SECRET=s"}, t.TempDir(), log)
	require.NoError(t, err)
	return p, log
}

func content(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(data)
}

func gone(pid int) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// A zombie whose parent does not look is gone as well.
	return err != nil || strings.Contains(string(state), ") Z ")
}

func TestExitCodes(t *testing.T) {
	cases := map[string]struct {
		script      string
		exit, ended int32
	}{
		"it ends well":  {"true", 0, 0},
		"it fails":      {"exit 7", 7, 0},
		"a signal does": {"kill -TERM $$", 143, 15},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, _ := run(t, tc.script)
			<-p.done
			assert.Equal(t, tc.exit, p.exit)
			assert.Equal(t, tc.ended, p.endedBy)
		})
	}
}

func TestTheEnvironmentIsClean(t *testing.T) {
	t.Setenv("LEAKED", "yes")
	p, log := run(t, "echo leaked=$LEAKED secret=$SECRET; echo err >&2")
	<-p.done
	assert.Equal(t, "leaked= secret=s\nerr\n", content(log))
}

func TestTheLogOfTheRunBeforeStays(t *testing.T) {
	spawn := newSpawner()
	t.Cleanup(spawn.close)
	dir := t.TempDir()
	log := filepath.Join(dir, "c.log")
	for _, word := range []string{"one", "two", "three"} {
		p, err := spawn.start(shell("echo "+word), nil, dir, log)
		require.NoError(t, err)
		<-p.done
	}
	assert.Equal(t, "three\n", content(log))
	assert.Equal(t, "two\n", content(log+".1"))
}

func TestAProgramThatIsNotThere(t *testing.T) {
	spawn := newSpawner()
	t.Cleanup(spawn.close)
	_, err := spawn.start(Program{Path: "/no/such/program"}, nil, t.TempDir(), filepath.Join(t.TempDir(), "c.log"))
	assert.ErrorContains(t, err, "/no/such/program")
}

func TestWhatAProcessLeavesBehindEndsWithIt(t *testing.T) {
	p, log := run(t, "sleep 600 & echo $!; exit 0")
	<-p.done
	child, err := strconv.Atoi(strings.TrimSpace(content(log)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return gone(child) }, patient, soon, "the background child ends")
}

func TestASignalReachesTheGroupAndNoLaterProcess(t *testing.T) {
	p, log := run(t, "sleep 600 & echo $!; wait")
	require.Eventually(t, func() bool { return strings.HasSuffix(content(log), "\n") }, patient, soon)
	p.signal(syscall.SIGTERM)
	<-p.done
	assert.True(t, p.reaped)
	assert.NotPanics(t, func() { p.signal(syscall.SIGKILL) })
}

// TestProcessesEndWithAKilledNode has a helper, this test binary again, start a process
// and be killed.
func TestProcessesEndWithAKilledNode(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	log := filepath.Join(t.TempDir(), "c.log")
	node := exec.Command(self, "play-node", log)
	node.Stderr = os.Stderr
	require.NoError(t, node.Start())
	var child int
	require.Eventually(t, func() bool {
		var err error
		child, err = strconv.Atoi(strings.TrimSpace(content(log)))
		return err == nil
	}, patient, soon, "the process of the node runs")
	require.False(t, gone(child))
	require.NoError(t, node.Process.Kill())
	_ = node.Wait()
	require.Eventually(t, func() bool { return gone(child) }, patient, soon, "the process ends with its node")
}

// PlayNode is for TestMain: it starts a process as a node does, and stays.
func PlayNode(log string) error {
	p, err := newSpawner().start(shell("echo $$; exec sleep 600"), nil, os.TempDir(), log)
	if err != nil {
		return err
	}
	<-p.done
	return nil
}
