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

// attempt is a row of a table of docs/explanation/trust.md.
type attempt struct {
	name string
	// tests are the names of the row: a test, a test and its subtest, or "…/subtest" for
	// another subtest of the last test that was named with one. "…" ends an abbreviated name.
	tests []string
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// attempts reads the rows of the tables of a document whose first column is "attempt".
func attempts(text string) []attempt {
	var rows []attempt
	isInside := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "| attempt |"):
			isInside = true
			continue
		case !strings.HasPrefix(line, "|"):
			isInside = false
		}
		if !isInside || strings.HasPrefix(line, "|-") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		row := attempt{name: cells[0]}
		for _, span := range codeSpan.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			row.tests = append(row.tests, span[1])
		}
		rows = append(rows, row)
	}
	return rows
}

// testSources returns the sources of all tests by folder.
func testSources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	for _, top := range []string{"host", "hack", "cmd", "conformance", "sdk"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			raw, err := os.ReadFile(path)
			sources[filepath.Dir(path)] += string(raw)
			return err
		}))
	}
	return sources
}

// findTest returns why a test of a row does not exist, and the sources of the folders that
// have it. last are the sources of the previous test.
func findTest(sources map[string]string, named, last string) (problem, found string) {
	parts := strings.Split(named, "/")
	found = last
	if parts[0] != "…" {
		found = ""
		for _, source := range sources {
			if strings.Contains(source, "\nfunc "+parts[0]+"(") {
				found += source
			}
		}
	}
	if found == "" {
		return "there is no test " + parts[0], ""
	}
	for _, subtest := range parts[1:] {
		text := strings.ReplaceAll(strings.TrimSuffix(subtest, "…"), "_", " ")
		if !strings.Contains(found, `"`+text) {
			return "there is no subtest " + text, found
		}
	}
	return "", found
}

func TestEveryTestOfAnAttemptExists(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs/explanation/trust.md"))
	require.NoError(t, err)
	rows := attempts(string(raw))
	require.Greater(t, len(rows), 20)
	sources := testSources(t)
	last := ""
	for _, row := range rows {
		for _, named := range row.tests {
			problem, found := findTest(sources, named, last)
			assert.Empty(t, problem, "%s: %s", row.name, named)
			if strings.Contains(named, "/") && found != "" {
				last = found
			}
		}
	}
}

func TestFindTest(t *testing.T) {
	sources := map[string]string{"a": "\nfunc TestOne(t *testing.T) {\n\tt.Run(\"reads a Secret\", nil)\n", "b": "\nfunc TestOther(t *testing.T) {\n\tt.Run(\"deletes\", nil)\n"}
	for name, tc := range map[string]struct{ named, want string }{
		"a test":                       {"TestOne", ""},
		"a subtest":                    {"TestOne/reads_a_Secret", ""},
		"an abbreviated subtest":       {"TestOne/reads…", ""},
		"a subtest of the last test":   {"…/deletes", ""},
		"a missing test":               {"TestTwo", "there is no test TestTwo"},
		"the beginning of a test":      {"TestOn", "there is no test TestOn"},
		"a missing subtest":            {"TestOne/deletes", "there is no subtest deletes"},
		"a subtest of an earlier test": {"…/reads_a_Secret", "there is no subtest reads a Secret"},
	} {
		t.Run(name, func(t *testing.T) {
			problem, _ := findTest(sources, tc.named, sources["b"])
			assert.Equal(t, tc.want, problem)
		})
	}
}
