package docscheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each row of the table of outages names the tests that hold it, which exist.
func TestEveryOutageNamesItsTests(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs/explanation/while-longshore-is-down.md"))
	require.NoError(t, err)
	rows := 0
	for line := range strings.SplitSeq(string(raw), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| down |") {
			continue
		}
		require.Len(t, cells, 5, "a row is: down, running pods, new pods, afterwards, tests: %s", line)
		rows++
		tests := code.FindAllStringSubmatch(cells[4], -1)
		assert.NotEmpty(t, tests, "%q names no test", cells[0])
		for _, named := range tests {
			if problem := exists(named[1]); problem != "" {
				assert.Failf(t, "a test is missing", "%q: %s %s", cells[0], named[1], problem)
			}
		}
	}
	assert.GreaterOrEqual(t, rows, 10)
}
