package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// make verify compares a module with what its text gives, for which it needs npm.
func TestEachTextHasItsModule(t *testing.T) {
	texts, err := moduleTexts(os.DirFS(top))
	require.NoError(t, err)
	require.NotEmpty(t, texts)
	for _, text := range texts {
		assert.FileExists(t, filepath.Join(top, strings.TrimSuffix(text, ".wat")+".wasm"), "run make generate")
	}
}
