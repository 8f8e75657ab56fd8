package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/conformance/guests"
	"github.com/longshore-dev/longshore/conformance/guests/toolchain"
)

// A policy that is built with the standard Go toolchain has at most 2.5 MB, and 700 kB compressed, so
// that it fits into a ConfigMap; in C, Rust and AssemblyScript, without a runtime, at most 150 kB.
func TestPoliciesAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the plugins")
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "plugins", "*", "plugin.yaml"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 6)
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			wasm, err := guests.BuildFolder(t.Context(), dir)
			toolchain.Need(t, err)
			packed, err := pack(wasm)
			require.NoError(t, err)
			raw, compressed := 150_000, 50_000
			if sources, err := filepath.Glob(filepath.Join(dir, "*.go")); err == nil && len(sources) > 0 {
				raw, compressed = 2_500_000, 700_000
			}
			assert.LessOrEqual(t, len(wasm), raw)
			assert.LessOrEqual(t, len(packed), compressed)
			t.Logf("%d bytes, %d compressed", len(wasm), len(packed))
		})
	}
}
