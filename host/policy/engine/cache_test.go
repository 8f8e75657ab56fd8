package engine_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strings"
	"sync"
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

// What came with the program is used, is not written to, and needs no cache; without it, or when
// it is damaged, modules are compiled.
func TestPrecompiledModulesAreUsed(t *testing.T) {
	shipped := t.TempDir()
	echoes(t, shipped)
	compiled := func(t *testing.T, options engine.Options) bool {
		t.Helper()
		isCompiled := false
		options.Compiler = func(ctx context.Context, wasm []byte, dir string) error {
			isCompiled = true
			return engine.CompileTo(ctx, dir, wasm)
		}
		e, err := engine.New(t.Context(), options)
		require.NoError(t, err)
		m, err := e.Compile(t.Context(), "guest", meter(t, small().Bytes()), engine.Limits{})
		require.NoError(t, err)
		output, _, err := m.Call(t.Context(), "echo", []byte("hello"))
		require.NoError(t, err)
		assert.Equal(t, "hello", string(output))
		require.NoError(t, e.Close(t.Context()))
		return isCompiled
	}
	before, cache := files(t, shipped), t.TempDir()
	assert.False(t, compiled(t, engine.Options{PrecompiledDir: shipped}), "no cache")
	assert.False(t, compiled(t, engine.Options{PrecompiledDir: shipped, CacheDir: cache}), "an empty cache")
	assert.Empty(t, files(t, cache))
	assert.Equal(t, before, files(t, shipped))
	assert.True(t, compiled(t, engine.Options{PrecompiledDir: filepath.Join(shipped, "absent")}))

	// The rights first: a map has no order, and damaged code is compiled whatever the rights are.
	for path := range before {
		if !strings.HasSuffix(path, ".json") {
			continue
		}
		entry := filepath.Dir(path)
		require.NoError(t, os.Chmod(entry, 0o777))
		assert.True(t, compiled(t, engine.Options{PrecompiledDir: shipped}), "others can write to it")
		require.NoError(t, os.Chmod(entry, 0o755))
		assert.False(t, compiled(t, engine.Options{PrecompiledDir: shipped}))
	}
	for path := range before {
		if !strings.HasSuffix(path, ".json") {
			require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
		}
	}
	assert.True(t, compiled(t, engine.Options{PrecompiledDir: shipped}), "damaged")
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
		"digests that are not JSON": each(func(t *testing.T, path string, _ []byte) {
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

// entries lists the entries of a cache, but for the cache's own name.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	require.NoError(t, err)
	return found
}

// No byte of an entry can change without the entry being thrown away.
func TestAnyFlippedBitIsNoticed(t *testing.T) {
	dir := t.TempDir()
	echoes(t, dir)
	step := 1 << 10
	if testing.Short() {
		step = 16 << 10
	}
	for path := range files(t, dir) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for at := 0; at < len(data); at += 1 + len(data)/(1+len(data)*16/step) {
			damaged := bytes.Clone(data)
			damaged[at] ^= 1 << (at % 8)
			// A new file: the old one may be linked into nothing else.
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			echoes(t, dir)
			healed, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(data), string(healed), "%s, byte %d: the entry was built anew", filepath.Base(path), at)
		}
	}
}

// An entry is for one module, and for what compiled it.
func TestForeignEntriesAreDiscarded(t *testing.T) {
	edit := func(t *testing.T, dir, old, replacement string) {
		t.Helper()
		file := filepath.Join(entries(t, dir)[0], "entry.json")
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(data), old)
		require.NoError(t, os.WriteFile(file, bytes.ReplaceAll(data, []byte(old), []byte(replacement)), 0o600))
	}
	tests := map[string]func(t *testing.T, dir string){
		"of another Go":       func(t *testing.T, dir string) { t.Helper(); edit(t, dir, goruntime.Version(), "go1.20") },
		"of another wazero":   func(t *testing.T, dir string) { t.Helper(); edit(t, dir, "wazero-v1.12.0", "wazero-v1.11.0") },
		"of another format":   func(t *testing.T, dir string) { t.Helper(); edit(t, dir, "engine2-", "engine1-") },
		"of another platform": func(t *testing.T, dir string) { t.Helper(); edit(t, dir, "-"+goruntime.GOARCH, "-wasm") },
		"of another module": func(t *testing.T, dir string) {
			t.Helper()
			name := filepath.Base(entries(t, dir)[0])
			edit(t, dir, name, strings.Repeat("0", len(name)))
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			echoes(t, dir)
			change(t, dir)
			record := filepath.Join(entries(t, dir)[0], "entry.json")
			foreign, err := os.ReadFile(record)
			require.NoError(t, err)
			echoes(t, dir)
			healed, err := os.ReadFile(record)
			require.NoError(t, err)
			assert.NotEqual(t, string(foreign), string(healed))
		})
	}
}

// What others could have written is not run: the cache is removed, with all in it.
func TestCacheOfOthersIsRemoved(t *testing.T) {
	tests := map[string]func(t *testing.T, root string){
		"the group may write": func(t *testing.T, root string) { t.Helper(); require.NoError(t, os.Chmod(root, 0o770)) },
		"all may read":        func(t *testing.T, root string) { t.Helper(); require.NoError(t, os.Chmod(root, 0o744)) },
		"a link to somewhere": func(t *testing.T, root string) {
			t.Helper()
			require.NoError(t, os.Rename(root, root+"-moved"))
			require.NoError(t, os.Symlink(root+"-moved", root))
		},
		"a directory of another user": func(t *testing.T, root string) {
			t.Helper()
			if os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			require.NoError(t, os.Chown(root, 65534, 65534))
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			echoes(t, dir)
			root := filepath.Dir(entries(t, dir)[0])
			change(t, root)
			_, err := engine.New(t.Context(), engine.Options{CacheDir: dir})
			require.NoError(t, err)
			left, err := os.ReadDir(root)
			require.NoError(t, err)
			assert.Empty(t, left)
			info, err := os.Lstat(root)
			require.NoError(t, err)
			assert.True(t, info.IsDir())
			assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
			echoes(t, dir)
		})
	}
}

// Several processes share a cache and damage it on the way: all get what they asked.
func TestManyProcessesAtOneCache(t *testing.T) {
	const variable = "LONGSHORE_TEST_CACHE"
	if dir := os.Getenv(variable); dir != "" {
		for range 20 {
			echoes(t, dir)
			for _, entry := range entries(t, dir) {
				_ = os.Truncate(filepath.Join(entry, "entry.json"), 10)
			}
		}
		return
	}
	dir := t.TempDir()
	var wait sync.WaitGroup
	for range 4 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestManyProcessesAtOneCache$")
			cmd.Env = append(os.Environ(), variable+"="+dir)
			text, err := cmd.CombinedOutput()
			assert.NoError(t, err, "%s", text)
		}()
	}
	wait.Wait()
	leftover, err := filepath.Glob(filepath.Join(dir, "*", "work-*"))
	require.NoError(t, err)
	assert.Empty(t, leftover)
}
