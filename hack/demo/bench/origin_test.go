package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStaleResultsAreDropped(t *testing.T) {
	now := origin{commit: "c2", date: "2026-11-22", machine: "2 x m"}
	isSameCode := func(commit string) bool { return commit == "c1" || commit == "c2" }
	for name, tc := range map[string]struct {
		result Result
		stays  bool
	}{
		"this commit":                        {Result{Commit: "c2", Date: "2026-11-22", Machine: "2 x m"}, true},
		"a commit with the same code":        {Result{Commit: "c1", Date: "2026-11-21", Machine: "2 x m"}, true},
		"a commit with other code":           {Result{Commit: "c0", Date: "2026-11-20", Machine: "2 x m"}, false},
		"another machine":                    {Result{Commit: "c2", Date: "2026-11-22", Machine: "4 x m"}, false},
		"a working tree with changes":        {Result{Commit: "c2" + modifiedSuffix, Date: "2026-11-22", Machine: "2 x m"}, false},
		"no date":                            {Result{Commit: "c2", Machine: "2 x m"}, false},
		"written before commits were stored": {Result{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.stays, len(dropStale([]Result{tc.result}, now, isSameCode)) == 1)
		})
	}
}

func TestTheCodeOfACommitIsCompared(t *testing.T) {
	t.Chdir(t.TempDir())
	run := func(arguments ...string) {
		command := exec.CommandContext(t.Context(), "git", arguments...)
		command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	change := func(path string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(path+strings.Repeat("x", os.Getpid()%7)), 0o600))
		run("add", "-A")
		run("commit", "-q", "-m", path)
	}
	run("init", "-q")
	change("host/a.go")
	first, err := newOrigin(t.Context())
	require.NoError(t, err)
	assert.Len(t, first.commit, 12)
	assert.NotEmpty(t, first.date)
	assert.Contains(t, first.machine, "GiB, Linux ")

	change("docs/a.txt")
	change("bench/results.json")
	change("README.md")
	assert.True(t, measuresSameCode(t.Context(), first.commit), "documents and results change no figure")
	change("host/b.go")
	assert.False(t, measuresSameCode(t.Context(), first.commit))
	assert.False(t, measuresSameCode(t.Context(), "0123456789ab"), "an unknown commit")

	require.NoError(t, os.WriteFile("host/a.go", []byte("changed"), 0o600))
	modified, err := newOrigin(t.Context())
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(modified.commit, modifiedSuffix), modified.commit)
}
