package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	builtinpolicies "github.com/longshore-dev/longshore/builtin-policies"
)

func TestCompare(t *testing.T) {
	lock := builtinpolicies.Lock{Go: "go1.26.8", Size: 10, SHA256: "aa", PackedSHA256: "bb"}
	tests := map[string]struct {
		change    func(*builtinpolicies.Lock)
		wantError string
	}{
		"the same module":        {func(*builtinpolicies.Lock) {}, ""},
		"another Go version":     {func(l *builtinpolicies.Lock) { l.Go = "go1.26.9" }, "this is go1.26.9"},
		"other sources":          {func(l *builtinpolicies.Lock) { l.SHA256 = "cc" }, "run make builtins"},
		"another compression":    {func(l *builtinpolicies.Lock) { l.PackedSHA256 = "cc" }, "run make builtins"},
		"another size of module": {func(l *builtinpolicies.Lock) { l.Size++ }, "run make builtins"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := lock
			tc.change(&got)
			err := compare(got, lock, io.Discard)
			if tc.wantError == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.wantError)
		})
	}
}

func TestPackIsDeterministic(t *testing.T) {
	data := bytes.Repeat([]byte("longshore"), 10_000)
	first, err := pack(data)
	require.NoError(t, err)
	second, err := pack(data)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	assert.Less(t, len(first), len(data)/10)
}

func TestWriteIfChanged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "file")
	for _, step := range []struct {
		data string
		want bool
	}{{"a", true}, {"a", false}, {"b", true}} {
		changed, err := writeIfChanged(file, []byte(step.data))
		require.NoError(t, err)
		assert.Equal(t, step.want, changed, step.data)
	}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "b", string(data))
}

func TestRunRefusesUnknownCommands(t *testing.T) {
	for _, args := range [][]string{nil, {"deploy"}, {"build", "verify"}} {
		assert.Error(t, run(args, io.Discard), args)
	}
}

// A compiled module begins with the magic number of wasm and is the same every time,
// which the lock depends on.
func TestCompileIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for wasip1")
	}
	top, err := root()
	require.NoError(t, err)
	dir := filepath.Join(top, "builtin-policies", "module")
	first, err := compile(dir)
	require.NoError(t, err)
	second, err := compile(dir)
	require.NoError(t, err)
	assert.Equal(t, []byte("\x00asm"), first[:4])
	assert.Equal(t, builtinpolicies.Digest(first), builtinpolicies.Digest(second))
	_, err = compile(t.TempDir())
	assert.ErrorContains(t, err, "compiling")
}
