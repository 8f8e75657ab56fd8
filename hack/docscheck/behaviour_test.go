// Package docscheck holds documents to the code: a citation leads somewhere, and what a
// document names is there.
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

const root = "../.."

var (
	row      = regexp.MustCompile(`^\| (T\d+) \| (.+) \| ((?:fixed|kept|later)[^|]*) \| ([^|]+) \|$`)
	citation = regexp.MustCompile(`\bT\d{1,2}\b`)
	code     = regexp.MustCompile("`([^`]+)`")
)

type rule struct {
	decision string
	places   []string
}

// rules reads the tables of docs/reference/behaviour.md.
func rules(t *testing.T) map[string]rule {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "docs/reference/behaviour.md"))
	require.NoError(t, err)
	found := map[string]rule{}
	for _, line := range strings.Split(string(raw), "\n") {
		if !strings.HasPrefix(line, "| T") {
			continue
		}
		match := row.FindStringSubmatch(line)
		require.NotNil(t, match, "a row is: number, rule, decision, where: %s", line)
		require.NotContains(t, found, match[1], "a rule stands once")
		r := rule{decision: match[3]}
		for _, place := range code.FindAllStringSubmatch(match[4], -1) {
			r.places = append(r.places, place[1])
		}
		found[match[1]] = r
	}
	return found
}

// citations returns for each trap the files that cite it.
func citations(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, folder := range []string{"host", "builtin-policies", "conformance", "sdk", "cmd", "hack", "plugins"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			ext := filepath.Ext(path)
			if err != nil || (ext != ".go" && ext != ".json") || strings.Contains(path, "docscheck") {
				return err
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, line := range strings.Split(string(raw), "\n") {
				// In Go only comments cite; T1 may be a type parameter.
				if at := strings.Index(line, "//"); ext == ".go" && at >= 0 {
					line = line[at:]
				} else if ext == ".go" && !strings.Contains(line, `"`) {
					continue
				}
				for _, trap := range citation.FindAllString(line, -1) {
					found[trap] = append(found[trap], path)
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
	return found
}

func TestEveryCitedTrapHasARow(t *testing.T) {
	known := rules(t)
	require.NotEmpty(t, known)
	for trap, files := range citations(t) {
		assert.Contains(t, known, trap, "cited in %s", files)
	}
}

func TestEveryPlaceThatARowNamesIsThere(t *testing.T) {
	for trap, r := range rules(t) {
		later := strings.HasPrefix(r.decision, "later")
		assert.Equal(t, later, len(r.places) == 0, "%s: what is decided has a place, what comes later has none", trap)
		for _, place := range r.places {
			assert.DirExists(t, filepath.Join(root, place), trap)
		}
	}
}

func TestWhatComesLaterIsNotCitedAsDone(t *testing.T) {
	cited := citations(t)
	for trap, r := range rules(t) {
		if strings.HasPrefix(r.decision, "later") {
			assert.Empty(t, cited[trap], "%s is listed as later, but code cites it: update its row", trap)
		}
	}
}
