package e2e_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (w *world) streams(t *testing.T) {
	pod := w.rome.readyPods(t, "shop", "app=web", 2)[0].Name
	for name, run := range map[string]func(t *testing.T, pod string){
		"exec": w.exec, "logs -f": w.followLogs, "attach": w.attach, "cp": w.copyFiles, "port-forward": w.forwardPort,
	} {
		t.Run(name, func(t *testing.T) { run(t, pod) })
	}
}

func (w *world) exec(t *testing.T, pod string) {
	assert.Equal(t, "hi\n", w.rome.kubectl(t, "-n", "shop", "exec", pod, "--", "/app", "print", "hi"))
	failing := w.rome.kubectlCommand(t.Context(), "-n", "shop", "exec", pod, "--", "/app", "fail", "broken")
	out, err := failing.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 3, exit.ExitCode(), "kubectl ends with the code of the command")
	assert.Contains(t, string(out), "app: broken")
}

// stream is a command that runs until the test ends.
type stream struct {
	in    io.WriteCloser
	lines *bufio.Scanner
}

func (c *cluster) stream(t *testing.T, args ...string) *stream {
	t.Helper()
	cmd := c.kubectlCommand(t.Context(), args...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	// Whatever it waits for, it ends.
	killed := time.AfterFunc(soon, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		killed.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &stream{in: in, lines: bufio.NewScanner(out)}
}

// until reads lines until one contains the text, and returns it.
func (s *stream) until(t *testing.T, text string) string {
	t.Helper()
	for s.lines.Scan() {
		if strings.Contains(s.lines.Text(), text) {
			return s.lines.Text()
		}
	}
	require.Fail(t, "the output ended", "before %q: %v", text, s.lines.Err())
	return ""
}

func (w *world) followLogs(t *testing.T, pod string) {
	logs := w.rome.stream(t, "-n", "shop", "logs", "-f", pod)
	logs.until(t, "serving")
	w.rome.get(t, "shop", pod, "http://localhost:8080/followed")
	logs.until(t, "GET /followed")
}

func (w *world) attach(t *testing.T, pod string) {
	attached := w.rome.stream(t, "-n", "shop", "attach", "-i", pod)
	_, err := io.WriteString(attached.in, "from rome\n")
	require.NoError(t, err)
	attached.until(t, "echo from rome")
}

func (w *world) copyFiles(t *testing.T, pod string) {
	dir := t.TempDir()
	there, back := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	require.NoError(t, os.WriteFile(there, []byte(strings.Repeat("content ", 10000)), 0o600))
	w.rome.kubectl(t, "-n", "shop", "cp", there, pod+":/tmp/copied")
	w.rome.kubectl(t, "-n", "shop", "cp", pod+":/tmp/copied", back)
	content, err := os.ReadFile(back)
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("content ", 10000), string(content))
}

var forwarding = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func (w *world) forwardPort(t *testing.T, pod string) {
	forward := w.rome.stream(t, "-n", "shop", "port-forward", pod, ":8080")
	address := forwarding.FindString(forward.until(t, "Forwarding from 127.0.0.1"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, pod+" hello\n", string(body))
}
