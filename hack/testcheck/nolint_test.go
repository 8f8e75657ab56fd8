package testcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

var directive = regexp.MustCompile(`//nolint:([a-z,]+)`)

// TestNolintNamesLintersThatRun keeps directives out that suppress nothing: nolintlint does not
// report those of linters that are off.
func TestNolintNamesLintersThatRun(t *testing.T) {
	root := filepath.Join("..", "..")
	raw, err := os.ReadFile(filepath.Join(root, ".golangci.yaml"))
	require.NoError(t, err)
	var config struct {
		Linters struct {
			Enable []string `json:"enable"`
		} `json:"linters"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &config))
	require.NotEmpty(t, config.Linters.Enable)
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "*.go")
	list.Dir = root
	names, err := list.Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // Deleted and not committed yet.
		}
		require.NoError(t, err)
		for _, match := range directive.FindAllStringSubmatch(string(content), -1) {
			for linter := range strings.SplitSeq(match[1], ",") {
				assert.Contains(t, config.Linters.Enable, linter, "%s: nolint of a linter that is off", name)
			}
		}
	}
}
