package console

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAPipeGetsPlainLines(t *testing.T) {
	var out bytes.Buffer
	c := NewPlain(&out)
	require.NoError(t, c.Step("Starting clusters", func(progress func(string)) error {
		progress("rome")
		return nil
	}))
	failure := errors.New("no port")
	require.ErrorIs(t, c.Step("Installing", func(func(string)) error { return failure }), failure)
	assert.Contains(t, out.String(), "ok   Starting clusters")
	assert.Contains(t, out.String(), "FAIL Installing")
	require.Error(t, c.Step("Peering", func(func(string)) error { return Skipped("nothing is installed") }))
	assert.Contains(t, out.String(), "skip Peering")
	assert.NotContains(t, out.String(), "\033", "a pipe gets no escape sequence")
}

func TestTablesAlign(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, NewPlain(&out).Table([]string{"POD", "PHASE"}, [][]string{{"web", "Running"}, {"database", "Pending"}}))
	assert.Equal(t, "POD       PHASE\nweb       Running\ndatabase  Pending\n", out.String())
}

// In a log of a long step there is something to read meanwhile.
func TestProgressIsWrittenToAPipe(t *testing.T) {
	read, write := io.Pipe()
	c := NewPlain(write)
	c.every = time.Millisecond
	shown := make(chan string, 1)
	go func() {
		line := make([]byte, 4096)
		for {
			n, err := read.Read(line)
			if err != nil {
				return
			}
			if text := string(line[:n]); strings.Contains(text, "web-1") {
				select {
				case shown <- text:
				default:
				}
			}
		}
	}()
	require.NoError(t, c.Step("Running the shop", func(progress func(string)) error {
		progress("1 of 2 pods ready,\n  waiting for web-1")
		assert.Regexp(t, `^\.\.\.  Running the shop {43} +\d+\.\ds 1 of 2 pods ready, waiting for web-1\n$`, <-shown)
		return nil
	}))
	require.NoError(t, write.Close())
}

// A line that is wider than the terminal could not be overwritten: each redraw would
// leave one behind.
func TestARunningStepStaysInItsLine(t *testing.T) {
	escapes := regexp.MustCompile("\033\\[[0-9;]*[A-Za-z]|\r")
	const title = "Starting clusters rome (consumer) and milan (provider)"
	c := NewPlain(io.Discard)
	c.terminal = true
	for name, tc := range map[string]struct {
		width  int
		detail string
		want   int
	}{
		"a detail that fits":              {width: 80, detail: "kwok", want: 69 + 4},
		"one that does not":               {width: 80, detail: strings.Repeat("waiting ", 20), want: 79},
		"letters that take several bytes": {width: 80, detail: strings.Repeat("ü", 20), want: 79},
		"two lines":                       {width: 90, detail: "a\nb", want: 69 + 3},
		"a sequence that clears the line": {width: 90, detail: "a\033[2Kb", want: 69 + 6},
		"a narrow terminal":               {width: 20, detail: "kwok", want: 19},
		"hardly one":                      {width: 1, detail: "kwok", want: 1},
		"one that does not know":          {width: 0, detail: strings.Repeat("x", 100), want: 69 + 100},
	} {
		c.width = func() int { return tc.width }
		c.setDetail(tc.detail)
		line := c.running(3, title, 12*time.Second)
		assert.True(t, strings.HasPrefix(line, "\r\033[K"), name)
		assert.NotContains(t, line, "\n", name)
		assert.Equal(t, tc.want, utf8.RuneCountInString(escapes.ReplaceAllString(line, "")), "%s: %q", name, line)
	}
}

func TestTheTerminalIsAskedForItsWidth(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	defer terminal.Close()
	for _, width := range []uint16{80, 120} {
		require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}))
		assert.Equal(t, int(width), columns(terminal))
	}
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	assert.Zero(t, columns(file), "no terminal")
	require.NoError(t, file.Close())
}
