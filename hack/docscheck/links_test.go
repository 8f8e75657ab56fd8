package docscheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link        = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)\s]*)?\)`)
	adrCitation = regexp.MustCompile(`\bADR 0*(\d{1,4})\b`)
	adrFile     = regexp.MustCompile(`^0*(\d+)-.*\.md$`)
)

// files returns the tracked kinds of text files of the tree, relative to its root.
func files(t *testing.T, extensions ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".demo" || d.Name() == "node_modules" || d.Name() == "bin" || d.Name() == "dist") {
			return filepath.SkipDir
		}
		for _, extension := range extensions {
			if filepath.Ext(path) == extension {
				found = append(found, path)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

func TestEveryRelativeLinkLeadsToAFile(t *testing.T) {
	for _, path := range files(t, ".md") {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range link.FindAllStringSubmatch(string(raw), -1) {
			target := match[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(path), target))
			assert.NoError(t, err, "%s links to %s", path, target)
		}
	}
}

func TestEveryHowToIsInTheIndex(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs/howto/README.md"))
	require.NoError(t, err)
	pages, err := filepath.Glob(filepath.Join(root, "docs/howto/*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			assert.Contains(t, string(index), "]("+name+")")
		}
	}
}

func TestEveryCitedDecisionExistsAndIsInTheIndex(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "docs/adr"))
	require.NoError(t, err)
	index, err := os.ReadFile(filepath.Join(root, "docs/adr/README.md"))
	require.NoError(t, err)
	known := map[string]string{}
	for _, entry := range entries {
		if match := adrFile.FindStringSubmatch(entry.Name()); match != nil {
			require.NotContains(t, known, match[1], "a number is used once")
			known[match[1]] = entry.Name()
			assert.Contains(t, string(index), "]("+entry.Name()+")", "docs/adr/README.md lists every decision")
		}
	}
	require.NotEmpty(t, known)
	for _, path := range files(t, ".md", ".go", ".yaml") {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range adrCitation.FindAllStringSubmatch(string(raw), -1) {
			assert.Contains(t, known, match[1], "%s cites ADR %s", path, match[1])
		}
	}
}

// maxDecisionWords bounds a decision to one page.
const maxDecisionWords = 350

var word = regexp.MustCompile(`[\pL\pN]`)

func TestADecisionHasOnePage(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/adr/0*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		require.NoError(t, err)
		count := 0
		for _, field := range strings.Fields(string(raw)) {
			if word.MatchString(field) {
				count++
			}
		}
		assert.LessOrEqual(t, count, maxDecisionWords, "%s: how the code works belongs in the comment of its package", page)
	}
}

var (
	wireHeading  = regexp.MustCompile(`(?m)^#{2,3} (P?\d+(?:\.\d+)?) `)
	wireCitation = regexp.MustCompile(`\bwire ((?:P?\d+(?:\.\d+)?)(?:, P?\d+(?:\.\d+)?)*)`)
)

func TestEveryCitedRuleOfTheWireHasASection(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/wire.md"))
	require.NoError(t, err)
	known := map[string]bool{}
	for _, match := range wireHeading.FindAllStringSubmatch(string(page), -1) {
		require.False(t, known[match[1]], "section %s stands once", match[1])
		known[match[1]] = true
	}
	require.NotEmpty(t, known)
	for _, path := range files(t, ".go", ".md", ".json", ".yaml") {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range wireCitation.FindAllStringSubmatch(string(raw), -1) {
			for section := range strings.SplitSeq(match[1], ", ") {
				assert.True(t, known[section], "%s cites wire %s", path, section)
			}
		}
	}
}
