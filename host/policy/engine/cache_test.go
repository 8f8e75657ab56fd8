package engine_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/host/policy/engine"
)

// echoes compiles the small guest with a cache and makes sure that it works.
func echoes(t *testing.T, dir string) {
	t.Helper()
	e, err := engine.New(t.Context(), engine.Options{CacheDir: dir})
	require.NoError(t, err)
	m, err := e.Compile(t.Context(), "guest", meter(t, small().Bytes()), engine.Limits{})
	require.NoError(t, err)
	output, _, err := m.Call(t.Context(), "echo", []byte("hello"))
	require.NoError(t, err)
	assert.Equal(t, "hello", string(output))
	require.NoError(t, e.Close(t.Context()))
}

// files lists what a cache holds, with the times of the last change.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			info, err := e.Info()
			require.NoError(t, err)
			found[path] = info.ModTime().String()
		}
		return err
	}))
	return found
}

func TestCacheIsUsed(t *testing.T) {
	dir := t.TempDir()
	echoes(t, dir)
	first := files(t, dir)
	require.Len(t, first, 3, "kernel, guest, digests: %v", first)
	echoes(t, dir)
	assert.Equal(t, first, files(t, dir), "nothing is compiled twice, nothing is left over")
}

func TestDamagedCacheIsDiscarded(t *testing.T) {
	each := func(change func(t *testing.T, path string, data []byte)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			for path := range files(t, dir) {
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				change(t, path, data)
			}
		}
	}
	code := func(change func(data []byte) []byte) func(t *testing.T, dir string) {
		return each(func(t *testing.T, path string, data []byte) {
			t.Helper()
			if !strings.HasSuffix(path, ".json") {
				require.NoError(t, os.WriteFile(path, change(data), 0o600))
			}
		})
	}
	tests := map[string]func(t *testing.T, dir string){
		"a changed byte in the code":   code(func(b []byte) []byte { b[len(b)/2] ^= 0x55; return b }),
		"a changed byte in the header": code(func(b []byte) []byte { b[12] ^= 0xff; return b }),
		"a file that was cut":          code(func(b []byte) []byte { return b[:len(b)/2] }),
		"an empty file":                code(func([]byte) []byte { return nil }),
		"text":                         code(func([]byte) []byte { return []byte("text") }),
		"digests that are no JSON": each(func(t *testing.T, path string, _ []byte) {
			t.Helper()
			if strings.HasSuffix(path, ".json") {
				require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
			}
		}),
		"no digests": each(func(t *testing.T, path string, _ []byte) {
			t.Helper()
			if strings.HasSuffix(path, ".json") {
				require.NoError(t, os.Remove(path))
			}
		}),
		"a missing file": each(func(t *testing.T, path string, _ []byte) {
			t.Helper()
			if !strings.HasSuffix(path, ".json") {
				require.NoError(t, os.Remove(path))
			}
		}),
		"a file too many": each(func(t *testing.T, path string, data []byte) {
			t.Helper()
			require.NoError(t, os.WriteFile(path+".more", data, 0o600))
		}),
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			echoes(t, dir)
			before := files(t, dir)
			damage(t, dir)
			echoes(t, dir)
			after := files(t, dir)
			require.Len(t, after, 3)
			for path := range before {
				require.Contains(t, after, path)
			}
			echoes(t, dir)
			assert.Equal(t, after, files(t, dir), "the entry was rebuilt and is whole again")
		})
	}
}

func TestCacheThatCannotBeWrittenCostsTimeOnly(t *testing.T) {
	dir := t.TempDir()
	e, err := engine.New(t.Context(), engine.Options{CacheDir: dir})
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	m, err := e.Compile(t.Context(), "guest", meter(t, small().Bytes()), engine.Limits{})
	require.NoError(t, err)
	require.NoError(t, m.Close(t.Context()))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	_, err = engine.New(t.Context(), engine.Options{CacheDir: dir})
	require.ErrorContains(t, err, "the operator must make its directory writable")
}

// The cache's name holds the version of wazero, which this test holds equal to the one
// that is built in.
func TestCacheKnowsTheVersionOfWazero(t *testing.T) {
	dir := t.TempDir()
	_, err := engine.New(t.Context(), engine.Options{CacheDir: dir})
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	mod, err := os.ReadFile("../../../go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`tetratelabs/wazero (v\S+)`).FindSubmatch(mod)
	require.NotNil(t, version)
	assert.Contains(t, entries[0].Name(), "-wazero-"+string(version[1])+"-")
}
