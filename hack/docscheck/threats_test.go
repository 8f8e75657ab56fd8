package docscheck

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withoutTest begins the last column of a promise that no test holds; the reason follows.
const withoutTest = "no test: "

var (
	// namedTest is a test as a row names it, with its folder: host/policy/fuel.TestNames.
	namedTest = regexp.MustCompile(`^([\w/-]+)\.((?:Test|Fuzz)\w+)$`)
	threatRow = regexp.MustCompile(`^\| (.+) \| (.+) \| (.+) \|$`)
)

// threats reads the rows of the tables of a document whose first column is "threat": for
// each threat the tests that it names.
func threats(t *testing.T, document string) map[string][]string {
	t.Helper()
	return rowsWithTests(t, document, "threat")
}

// rowsWithTests reads the rows of the tables of a document with a certain first column: for each
// row the tests that its last column names.
func rowsWithTests(t *testing.T, document, column string) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(document)
	require.NoError(t, err)
	found, inside := map[string][]string{}, false
	for line := range strings.SplitSeq(string(raw), "\n") {
		switch {
		case strings.HasPrefix(line, "| "+column+" |"):
			inside = true
			continue
		case !strings.HasPrefix(line, "|"):
			inside = false
		}
		if !inside || strings.HasPrefix(line, "|-") {
			continue
		}
		match := threatRow.FindStringSubmatch(line)
		require.NotNil(t, match, "a row is: %s, what is done, tests: %s", column, line)
		require.NotContains(t, found, match[1], "a %s stands once", column)
		found[match[1]] = []string{}
		if strings.HasPrefix(match[3], withoutTest) {
			continue
		}
		for _, named := range code.FindAllStringSubmatch(match[3], -1) {
			found[match[1]] = append(found[match[1]], named[1])
		}
	}
	return found
}

// exists returns the reason why a test of a row does not exist: a test or fuzz function in a folder,
// or the folder of a probe.
func exists(named string) string {
	match := namedTest.FindStringSubmatch(named)
	if match == nil {
		if _, err := os.Stat(filepath.Join(root, named, "want.txt")); !strings.HasPrefix(named, "conformance/probes/") || err != nil {
			return "is neither a test (folder.TestName) nor a probe (conformance/probes/NAME)"
		}
		return ""
	}
	files, err := filepath.Glob(filepath.Join(root, match[1], "*_test.go"))
	if err != nil || len(files) == 0 {
		return "is in a folder without tests"
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(raw), "\nfunc "+match[2]+"(") {
			return ""
		}
	}
	return "is not in " + match[1]
}

func TestEveryTestThatAThreatNamesIsThere(t *testing.T) {
	documents, err := filepath.Glob(filepath.Join(root, "docs/explanation/*.md"))
	require.NoError(t, err)
	rows := map[string]int{}
	for _, document := range documents {
		for threat, tests := range threats(t, document) {
			rows[filepath.Base(document)]++
			assert.NotEmpty(t, tests, "%s: %q names no test", document, threat)
			for _, named := range tests {
				if problem := exists(named); problem != "" {
					assert.Failf(t, "a test is missing", "%s: %q: %s %s", document, threat, named, problem)
				}
			}
		}
	}
	assert.NotZero(t, rows["sandbox.md"])
}

// A promise of the reference's documents names the tests that hold it, or the reason why there is
// none; the page says how many.
func TestEveryTestThatAPromiseNamesIsThere(t *testing.T) {
	document := filepath.Join(root, "docs/reference/documents.md")
	raw, err := os.ReadFile(document)
	require.NoError(t, err)
	promises, without := rowsWithTests(t, document, "promise"), 0
	for promise, tests := range promises {
		if len(tests) == 0 {
			without++
		}
		for _, named := range tests {
			if problem := exists(named); problem != "" {
				assert.Failf(t, "a test is missing", "%q: %s %s", promise, named, problem)
			}
		}
	}
	assert.Equal(t, strings.Count(string(raw), "| "+withoutTest), without, "a row without tests gives the reason")
	assert.Contains(t, string(raw), fmt.Sprintf("Of %d promises, %d have no test.", len(promises), without))
}

func TestATestThatIsNotThereIsNoticed(t *testing.T) {
	for name, tc := range map[string]struct{ named, want string }{
		"a test":                   {"hack/docscheck.TestATestThatIsNotThereIsNoticed", ""},
		"a probe":                  {"conformance/probes/loop", ""},
		"a test that is not there": {"hack/docscheck.TestNothing", "is not in hack/docscheck"},
		"the beginning of a name":  {"hack/docscheck.TestATest", "is not in hack/docscheck"},
		"no folder":                {"hack/nowhere.TestNothing", "is in a folder without tests"},
		"no probe":                 {"conformance/probes/nothing", "is neither"},
		"no test at all":           {"README.md", "is neither"},
	} {
		t.Run(name, func(t *testing.T) {
			problem := exists(tc.named)
			assert.Equal(t, tc.want == "", problem == "", problem)
			assert.Contains(t, problem, tc.want)
		})
	}
}
