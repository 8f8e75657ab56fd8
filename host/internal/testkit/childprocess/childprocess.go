// Package childprocess runs virtual kubelets of tests in processes of their own, so that tests can
// kill them. A process runs the binary of the test.
package childprocess

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/longshore-dev/longshore/host/internal/testkit/chartrights"
)

const (
	// optionsVariable is set in the environment of a child process, to the file with its options.
	optionsVariable = "LONGSHORE_TEST_VIRTUAL_KUBELET"
	// logTail is how many bytes of a log are printed if the test has failed.
	logTail = 20000
)

// Main is the TestMain of a package that starts processes. In a process it calls run with the
// options of Start, and otherwise it runs the tests. The context of run ends with the parent.
func Main[O any](m *testing.M, run func(ctx context.Context, options O) error) {
	if file := os.Getenv(optionsVariable); file != "" {
		os.Exit(runChild(file, run))
	}
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func runChild[O any](file string, run func(context.Context, O) error) (code int) {
	log := funcr.NewJSON(func(line string) { _, _ = os.Stderr.WriteString(line + "\n") }, funcr.Options{LogTimestamp: true, Verbosity: 1})
	ctrl.SetLogger(log)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		cancel()
	}()
	options, err := readOptions[O](file)
	if err == nil {
		err = run(ctrl.LoggerInto(ctx, log), options)
	}
	if err != nil {
		log.Error(err, "The virtual kubelet ended")
		return 1
	}
	return 0
}

func readOptions[O any](file string) (options O, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return options, fmt.Errorf("reading the options: %w", err)
	}
	if err := json.Unmarshal(raw, &options); err != nil {
		return options, fmt.Errorf("decoding the options: %w", err)
	}
	return options, nil
}

// Process is a virtual kubelet in a process of its own. It can be started again after it has ended.
type Process struct {
	command *exec.Cmd
	stdin   io.Closer
	logFile string
	ended   bool
}

// Start starts a process, and kills it when the test ends. If the test has failed, the end of
// the log is printed. The test fails if a request was denied.
func Start(tb testing.TB, options any) *Process {
	tb.Helper()
	p := &Process{logFile: filepath.Join(tb.TempDir(), "log")}
	p.Restart(tb, options)
	tb.Cleanup(func() {
		p.Kill(tb)
		content, err := os.ReadFile(p.logFile)
		assert.NoError(tb, err)
		chartrights.AssertNoneDenied(tb, content)
		if tb.Failed() {
			tb.Logf("the virtual kubelet's log:\n%s", content[max(0, len(content)-logTail):])
		}
	})
	return p
}

// Restart starts the process again, which must have ended. It appends to the log.
func (p *Process) Restart(tb testing.TB, options any) {
	tb.Helper()
	raw, err := json.Marshal(options)
	require.NoError(tb, err)
	file := filepath.Join(tb.TempDir(), "options.json")
	require.NoError(tb, os.WriteFile(file, raw, 0o600))
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(tb, err)
	defer log.Close()
	binary, err := os.Executable()
	require.NoError(tb, err)
	p.command = exec.Command(binary)
	p.command.Env = append(os.Environ(), optionsVariable+"="+file)
	p.command.Stdout, p.command.Stderr = log, log
	p.stdin, err = p.command.StdinPipe()
	require.NoError(tb, err)
	require.NoError(tb, p.command.Start())
	p.ended = false
}

// PID returns the ID of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// Kill kills the process unless it was ended before, and waits until it has ended. The test fails
// if the process ended by itself.
func (p *Process) Kill(tb testing.TB) {
	tb.Helper()
	if p.ended {
		return
	}
	require.NoError(tb, p.command.Process.Kill())
	p.await(tb, "signal: killed")
}

// End ends the process as a pod's process ends, and waits until it has ended without an error.
func (p *Process) End(tb testing.TB) {
	tb.Helper()
	p.ended = true
	_ = p.stdin.Close() // its other end may be closed already
	require.NoError(tb, p.command.Wait())
}

// AwaitFailure waits until the process ends by itself with an error.
func (p *Process) AwaitFailure(tb testing.TB) {
	tb.Helper()
	p.await(tb, "exit status 1")
}

// await waits until the process ends in a way.
func (p *Process) await(tb testing.TB, want string) {
	tb.Helper()
	p.ended = true
	err := p.command.Wait()
	_ = p.stdin.Close() // its other end may be closed already
	require.ErrorContains(tb, err, want, "the process ended in another way")
}
