package testcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxTracked is the size of the largest file that is tracked; binaries are larger, and are built.
const maxTracked = 1 << 20

// TestNoBinaryIsTracked fails when `go build` left its output in the tree and it was committed.
func TestNoBinaryIsTracked(t *testing.T) {
	root := filepath.Join("..", "..")
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = root
	names, err := list.Output()
	require.NoError(t, err)
	tracked := strings.Split(strings.TrimRight(string(names), "\x00"), "\x00")
	require.NotEmpty(t, tracked)
	for _, name := range tracked {
		info, err := os.Lstat(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // Deleted and not committed yet.
		}
		require.NoError(t, err)
		assert.LessOrEqual(t, info.Size(), int64(maxTracked), "%s is tracked: build it instead", name)
	}
}
