// Package outputtest compares what a command prints with snapshots: on a terminal of 80 columns
// and in a pipe.
package outputtest

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
)

// columns of the terminal.
const columns = 80

// Long is a name of the greatest length that a label value, and so the name of a Node, can have.
const Long = "a-cluster-with-a-very-long-name-in-the-north-of-milan-europe-1a"

// update rewrites the snapshots.
var update = flag.Bool("update", false, "write the snapshots")

// terminal is a writer with columns.
type terminal struct{ bytes.Buffer }

// Columns returns the width.
func (*terminal) Columns() int { return columns }

var escapes = regexp.MustCompile("\033\\[[0-9;]*m")

// Table compares a table with testdata/NAME.terminal.txt and testdata/NAME.pipe.txt. No line on the
// terminal is wider than it, unless the table is wide or the line is one word; a pipe gets no escape
// sequence, and the same words.
func Table(t *testing.T, name string, isWide bool, write func(io.Writer, output.Style) error) {
	t.Helper()
	screen, pipe := &terminal{}, &bytes.Buffer{}
	require.NoError(t, write(screen, output.Colored(true)))
	require.NoError(t, write(pipe, output.Colored(false)))
	for line := range strings.Lines(escapes.ReplaceAllString(screen.String(), "")) {
		assert.True(t, isWide || len(strings.Fields(line)) == 1 || utf8.RuneCountInString(strings.TrimRight(line, "\n")) <= columns, "wider than the terminal: %s", line)
	}
	assert.NotContains(t, pipe.String(), "\033")
	assert.Equal(t, letters(pipe.String()), letters(escapes.ReplaceAllString(screen.String(), "")), "the terminal and the pipe differ")
	Golden(t, name+".terminal.txt", screen.String())
	Golden(t, name+".pipe.txt", pipe.String())
}

// letters counts the characters of a text that are not blank: folding moves them, and loses none.
func letters(text string) map[rune]int {
	counts := map[rune]int{}
	for _, r := range strings.Join(strings.Fields(text), "") {
		counts[r]++
	}
	return counts
}

// Golden compares a text with a file in testdata, which -update writes.
func Golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update")
	assert.Equal(t, string(want), got, "run the test with -update")
}
