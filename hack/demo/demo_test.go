package main

import (
	"bytes"
	"context"
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

	"github.com/longshore-dev/longshore/conformance/testplane/planetest"
	"github.com/longshore-dev/longshore/hack/demo/session"
)

const patience = 3 * time.Minute

// demo runs the built command on a folder of the test, as make does.
type demo struct {
	t      *testing.T
	dir    string
	binary string
	server string
}

func newDemo(t *testing.T) *demo {
	t.Helper()
	planetest.NeedsControlPlane(t)
	d := &demo{t: t, dir: filepath.Join(t.TempDir(), "demo")}
	for path, name := range map[*string]string{&d.binary: "demo", &d.server: "longshore"} {
		absolute, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
		require.NoError(t, err)
		_, err = os.Stat(absolute)
		require.NoError(t, err, "bin/%s is missing: run make build", name)
		*path = absolute
	}
	t.Cleanup(func() { d.run(context.Background(), "down") })
	return d
}

func (d *demo) command(ctx context.Context, verb string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, d.binary, verb, "--dir", d.dir, "--longshore", d.server)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

func (d *demo) run(ctx context.Context, verb string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd, out := d.command(ctx, verb)
	err := cmd.Run()
	return out.String(), err
}

func (d *demo) must(verb string) string {
	d.t.Helper()
	out, err := d.run(d.t.Context(), verb)
	require.NoError(d.t, err, out)
	return out
}

// processes are those whose command line names the demo's folder, all that it started, by
// process ID.
func (d *demo) processes() map[int]string {
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline") // Only a malformed pattern is an error.
	found := map[int]string{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		content, unreadable := os.ReadFile(entry)
		if err == nil && unreadable == nil && bytes.Contains(content, []byte(d.dir)) {
			found[pid] = strings.ReplaceAll(string(content), "\x00", " ")
		}
	}
	return found
}

// with are the processes of the demo that have the words in their command lines.
func (d *demo) with(words string) []int {
	var pids []int
	for pid, line := range d.processes() {
		if strings.Contains(line, words) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (d *demo) nothingIsLeft(why string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool { return len(d.processes()) == 0 }, patience, 50*time.Millisecond, why)
}

func TestTheDemoStartsShowsAndStops(t *testing.T) {
	d := newDemo(t)
	first := d.must("up")
	assert.Contains(t, first, "Starting clusters rome (consumer) and milan (provider)")
	assert.Contains(t, first, "Checking what happened")
	assert.Equal(t, 6, strings.Count(first, "  shop-rome  "), "one row a pod:\n%s", first)
	showsNeeds(t, first)
	assert.NotContains(t, first, "\033[", "plain text in a pipe")
	for _, name := range []string{"rome.kubeconfig", "milan.kubeconfig", "logs"} {
		_, err := os.Stat(filepath.Join(d.dir, name))
		require.NoError(t, err)
	}

	second := d.must("up")
	assert.Contains(t, second, "are running already")
	assert.Equal(t, 6, strings.Count(second, "  shop-rome  "), "the same pods, no new ones")

	kwok := d.with(" kwok ")
	require.Len(t, kwok, 1)
	require.NoError(t, syscall.Kill(kwok[0], syscall.SIGKILL))
	require.Eventually(t, func() bool {
		now := d.with(" kwok ")
		return len(now) == 1 && now[0] != kwok[0]
	}, patience, 50*time.Millisecond, "the supervisor starts kwok again")
	assert.Contains(t, d.must("up"), "Checking what happened")

	s, err := session.Open(d.dir)
	require.NoError(t, err)
	_, state, err := s.Alive()
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(state.PID, syscall.SIGKILL))
	d.nothingIsLeft("a killed supervisor takes everything along")
	assert.Contains(t, d.must("up"), "Starting clusters", "a run after a crash starts anew")

	d.must("down")
	d.nothingIsLeft("down stops everything")
	assert.Contains(t, d.must("down"), "Nothing was running")
}

// showsNeeds checks the table of what follows the pods, and that each line fits a terminal.
func showsNeeds(t *testing.T, out string) {
	t.Helper()
	for _, row := range []string{
		`Ingress +storefront +shop\.example\.com +shop\.example\.com`,
		`Endpoints +payments +203\.0\.113\.7 +203\.0\.113\.7`,
		`Endpoints +storefront +[0-9.]+, [0-9.]+ +2 pods`,
		`Claim +data-database-0 +Bound \(liqo\) +Bound \(milan-disk-[12]\)`,
		`Token +monitor +lists 6 pods +milan-processes`,
	} {
		assert.Regexp(t, `(?m)^`+row+`$`, out)
	}
	// The lines before the tables are progress, and those after them name the folder of the test.
	_, tables, hasTables := strings.Cut(out, "Pods of rome that run in milan")
	tables, _, hasMore := strings.Cut(tables, "Look further")
	require.True(t, hasTables && hasMore, out)
	for line := range strings.Lines(tables) {
		assert.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 80, line)
	}
}

// The supervisor may not have run a line of its own when Ctrl-C comes, or be anywhere in
// the start of two clusters. Whatever the moment is on this machine: nothing stays.
func TestAnInterruptedDemoLeavesNothing(t *testing.T) {
	supervisor := func(d *demo) bool { return len(d.with(" supervise ")) > 0 }
	cases := map[string]struct {
		begun func(*demo) bool
		later time.Duration
	}{
		"when the supervisor is born":            {begun: supervisor},
		"5 ms later":                             {begun: supervisor, later: 5 * time.Millisecond},
		"20 ms later":                            {begun: supervisor, later: 20 * time.Millisecond},
		"50 ms later":                            {begun: supervisor, later: 50 * time.Millisecond},
		"when a first control plane is starting": {begun: func(d *demo) bool { return len(d.processes()) > 2 }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDemo(t)
			cmd, out := d.command(t.Context(), "up")
			require.NoError(t, cmd.Start())
			require.Eventually(t, func() bool { return tc.begun(d) }, patience, time.Millisecond, "something was started")
			<-time.After(tc.later)
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			require.Error(t, cmd.Wait())
			assert.Contains(t, out.String(), "Interrupted; what this run started is stopped.")
			assert.Empty(t, d.processes(), "it reports success after the last process has ended")
		})
	}
}
