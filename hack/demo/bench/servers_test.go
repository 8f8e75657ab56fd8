package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The files that replace those of the product must compile there.
func TestEveryServerCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles host/app/policies three times")
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	for _, kind := range []server{{native: true}, {forgetful: true}, {native: true, forgetful: true}} {
		t.Run(kind.String(), func(t *testing.T) {
			files := kind.overlay(root)
			for product, other := range files {
				assert.FileExists(t, product)
				assert.FileExists(t, other)
			}
			content, err := json.Marshal(map[string]any{"Replace": files})
			require.NoError(t, err)
			list := filepath.Join(t.TempDir(), "overlay.json")
			require.NoError(t, os.WriteFile(list, content, 0o600))
			cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "./"+replaced)
			cmd.Dir = root
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, string(output))
		})
	}
}

func TestTheProductsServerIsBuiltOfTheProductsFiles(t *testing.T) {
	assert.Empty(t, server{}.overlay("/clone"))
	assert.Equal(t, map[string]string{"/clone/host/app/policies/builtin.go": "/clone/hack/demo/bench/policies/builtin.go"}, server{native: true}.overlay("/clone"))
}

func TestServersTakeTurns(t *testing.T) {
	dir := t.TempDir()
	s := &servers{link: filepath.Join(dir, "longshore"), binaries: map[server]string{}}
	for _, kind := range []server{{}, {native: true}} {
		s.binaries[kind] = filepath.Join(dir, kind.String())
		require.NoError(t, os.WriteFile(s.binaries[kind], []byte(kind.String()), 0o600))
	}
	for _, kind := range []server{{}, {native: true}, {}} {
		require.NoError(t, s.choose(kind))
		content, err := os.ReadFile(s.link)
		require.NoError(t, err)
		assert.Equal(t, kind.String(), string(content))
	}
}
