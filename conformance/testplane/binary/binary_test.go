package binary_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/testplane/binary"
)

const tinyMain = "package main\n\nfunc main() { println(\"built\") }\n"

// tinyClone makes a clone whose test plane builds in a second, with a cache of its own,
// and works in it.
func tinyClone(t *testing.T) (source, cache string) {
	t.Helper()
	buildCache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(buildCache)))
	cache = t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv(binary.Environment, "")
	root := t.TempDir()
	source = filepath.Join(root, "conformance", "testplane", "kubernetes")
	write(t, filepath.Join(root, "go.mod"), "module github.com/longshore-dev/longshore\n\ngo 1.26.0\n")
	write(t, filepath.Join(source, "go.mod"), `module github.com/longshore-dev/longshore/conformance/testplane/kubernetes

go 1.26.0

require k8s.io/kubernetes v1.37.0

replace k8s.io/kubernetes => ./kubernetes
`)
	write(t, filepath.Join(source, "kubernetes", "go.mod"), "module k8s.io/kubernetes\n\ngo 1.26.0\n")
	write(t, filepath.Join(source, "main.go"), tinyMain)
	below := filepath.Join(root, "deep", "below")
	require.NoError(t, os.MkdirAll(below, 0o755))
	t.Chdir(below)
	return source, filepath.Join(cache, "longshore", "testplane")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func TestItIsBuiltOncePerRevision(t *testing.T) {
	source, _ := tinyClone(t)
	_, err := binary.Locate(t.Context())
	require.ErrorIs(t, err, binary.ErrMissing)
	require.ErrorContains(t, err, binary.BuildCommand)

	var messages bytes.Buffer
	built, err := binary.Build(t.Context(), &messages)
	require.NoError(t, err)
	assert.Contains(t, messages.String(), "building")
	located, err := binary.Locate(t.Context())
	require.NoError(t, err)
	assert.Equal(t, built, located)
	out, err := exec.CommandContext(t.Context(), built).CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "built\n", string(out))

	messages.Reset()
	again, err := binary.Build(t.Context(), &messages)
	require.NoError(t, err)
	assert.Equal(t, built, again)
	assert.Empty(t, messages.String(), "nothing is built")

	write(t, filepath.Join(source, "main_test.go"), "package main\n")
	_, err = binary.Locate(t.Context())
	require.NoError(t, err, "a test of the test plane does not change it")
	write(t, filepath.Join(source, "more.go"), "package main\n")
	_, err = binary.Locate(t.Context())
	require.ErrorIs(t, err, binary.ErrMissing, "another source is another binary")
}

func TestBuildsAtTheSameTimeBuildOnce(t *testing.T) {
	tinyClone(t)
	const builds = 3
	paths, errs := make(chan string, builds), make(chan error, builds)
	messages := make([]bytes.Buffer, builds)
	for i := range builds {
		go func() {
			path, err := binary.Build(t.Context(), &messages[i])
			paths <- path
			errs <- err
		}()
	}
	first := <-paths
	require.NoError(t, <-errs)
	for range builds - 1 {
		assert.Equal(t, first, <-paths)
		require.NoError(t, <-errs)
	}
	built := 0
	for i := range messages {
		built += strings.Count(messages[i].String(), "building the Kubernetes control plane")
	}
	assert.Equal(t, 1, built)
}

func TestAFailedBuildShowsTheCompilersMessageAndLeavesNothing(t *testing.T) {
	source, cache := tinyClone(t)
	write(t, filepath.Join(source, "main.go"), "package main\n\nfunc main() { undefinedName() }\n")
	_, err := binary.Build(t.Context(), &bytes.Buffer{})
	require.ErrorContains(t, err, "undefined: undefinedName")
	assertOnlyTheLock(t, cache)
}

func TestAnInterruptedBuildLeavesNothing(t *testing.T) {
	_, cache := tinyClone(t)
	ctx, cancel := context.WithCancel(t.Context())
	// The first message comes before go starts.
	_, err := binary.Build(ctx, writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }))
	require.Error(t, err)
	assertOnlyTheLock(t, cache)
}

func TestUnusedBuildsAreRemoved(t *testing.T) {
	source, cache := tinyClone(t)
	old, err := binary.Build(t.Context(), &bytes.Buffer{})
	require.NoError(t, err)
	write(t, filepath.Join(source, "more.go"), "package main\n")
	recent, err := binary.Build(t.Context(), &bytes.Buffer{})
	require.NoError(t, err)
	assert.FileExists(t, old, "it was used a moment ago")
	long := time.Now().Add(-30 * 24 * time.Hour)
	require.NoError(t, os.Chtimes(old, long, long))
	require.NoError(t, os.MkdirAll(filepath.Join(cache, "building-123"), 0o755))

	write(t, filepath.Join(source, "yetmore.go"), "package main\n")
	newest, err := binary.Build(t.Context(), &bytes.Buffer{})
	require.NoError(t, err)
	assert.NoFileExists(t, old)
	assert.NoDirExists(t, filepath.Join(cache, "building-123"), "a build that was killed")
	assert.FileExists(t, recent)
	assert.FileExists(t, newest)
}

func TestOutsideACloneTheErrorNamesWhatToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(binary.Environment, "")
	_, err := binary.Locate(t.Context())
	require.ErrorContains(t, err, "run this inside a clone")
	t.Setenv(binary.Environment, "/nowhere/testplane")
	_, err = binary.Locate(t.Context())
	require.ErrorIs(t, err, binary.ErrMissing)
	assert.ErrorContains(t, err, "/nowhere/testplane")
}

func assertOnlyTheLock(t *testing.T, cache string) {
	t.Helper()
	entries, err := os.ReadDir(cache)
	require.NoError(t, err)
	for _, entry := range entries {
		assert.Equal(t, "build.lock", entry.Name())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
