package docscheck

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// languages of policies, by the file of their source.
var languages = map[string]string{"main.go": "Go", "policy.c": "C", "policy.rs": "Rust", "policy.ts": "AssemblyScript"}

// The table of the plugins has a row with the language of each, and the page of a plugin begins with its name.
func TestThePageOfThePluginsHasAllOfThem(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "plugins", "README.md"))
	require.NoError(t, err)
	described, err := filepath.Glob(filepath.Join(root, "plugins", "*", "plugin.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, described)
	found := map[string]bool{}
	for _, path := range described {
		folder := filepath.Dir(path)
		name := filepath.Base(folder)
		for source, language := range languages {
			if _, err := os.Stat(filepath.Join(folder, source)); err == nil {
				found[language] = true
				assert.Contains(t, string(page), fmt.Sprintf("| [%s](%[1]s) | %s | ", name, language))
			}
		}
		lesson, err := os.ReadFile(filepath.Join(folder, "README.md"))
		require.NoError(t, err, "a plugin is a lesson")
		assert.Regexp(t, "^# "+name+": ", string(lesson))
	}
	for _, language := range languages {
		assert.True(t, found[language], "no plugin is in %s", language)
	}
}
