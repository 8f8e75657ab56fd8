// Package console prints what a person watches: steps with progress and durations, and
// tables. On a terminal it uses color and redraws the running step within its line; in a
// pipe it prints plain lines, and now and then one about a step that takes long.
package console

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fatih/color"
	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

const (
	redrawEvery = 200 * time.Millisecond
	remindEvery = 15 * time.Second
)

// Console prints to one writer.
type Console struct {
	out      io.Writer
	terminal bool
	// width of the terminal in columns, asked for each time since it changes; 0 is unknown.
	width func() int
	// every is the time between two lines about a running step.
	every time.Duration
	now   func() time.Time

	mu     sync.Mutex
	detail string
}

// New prints to a file; color and redrawing depend on whether it is a terminal.
func New(out *os.File) *Console {
	terminal := isatty.IsTerminal(out.Fd()) && os.Getenv("NO_COLOR") == ""
	color.NoColor = !terminal
	c := NewPlain(out)
	if terminal {
		c.terminal, c.every, c.width = true, redrawEvery, func() int { return columns(out) }
	}
	return c
}

// Width returns the number of columns of a terminal; 0 for another file, or if it is unknown.
func Width(file *os.File) int {
	if !isatty.IsTerminal(file.Fd()) {
		return 0
	}
	return columns(file)
}

func columns(terminal *os.File) int {
	width, _, err := term.GetSize(int(terminal.Fd()))
	if err != nil {
		return 0 // as those that do not know their size answer
	}
	return width
}

// NewPlain prints plain lines to any writer.
func NewPlain(out io.Writer) *Console {
	return &Console{out: out, every: remindEvery, width: func() int { return 0 }, now: time.Now}
}

// Skipped is the error of a step that did nothing, and why: it has not failed.
type Skipped string

// Error returns why.
func (s Skipped) Error() string { return "skipped: " + string(s) }

// Step runs one step, showing that it runs, how long it takes and how it ends.
func (c *Console) Step(title string, run func(progress func(string)) error) error {
	start := c.now()
	stop := make(chan struct{})
	var drawing sync.WaitGroup
	c.setDetail("")
	drawing.Go(func() { c.follow(title, start, stop) })
	err := run(c.setDetail)
	close(stop)
	drawing.Wait()
	fmt.Fprintf(c.out, "%s%s %-58s %6.1fs\n", c.clear(), c.mark(err), title, c.now().Sub(start).Seconds())
	return err
}

// mark shows how a step ended.
func (c *Console) mark(err error) string {
	plain, onTerminal := "FAIL", color.RedString("✗")
	if _, isSkipped := errors.AsType[Skipped](err); isSkipped {
		plain, onTerminal = "skip", color.HiBlackString("-")
	} else if err == nil {
		plain, onTerminal = "ok  ", color.GreenString("✓")
	}
	if c.terminal {
		return onTerminal
	}
	return plain
}

func (c *Console) setDetail(detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detail = detail
}

// follow shows a running step: on a terminal at once and again and again in the same
// line, in a pipe when it has taken long.
func (c *Console) follow(title string, start time.Time, stop <-chan struct{}) {
	ticker := time.NewTicker(c.every)
	defer ticker.Stop()
	for i := 0; ; i++ {
		if c.terminal || i > 0 {
			fmt.Fprint(c.out, c.running(i, title, c.now().Sub(start)))
		}
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
}

// running is what is printed about a step that runs. On a terminal it stays within the
// line: only the last row of a longer one could be overwritten.
func (c *Console) running(i int, title string, took time.Duration) string {
	c.mu.Lock()
	// It may quote a condition that another cluster has written.
	detail := strings.Join(strings.FieldsFunc(c.detail, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	c.mu.Unlock()
	text := fmt.Sprintf(" %-58s %6.1fs ", title, took.Seconds())
	if !c.terminal {
		return "... " + strings.TrimRight(text+detail, " ") + "\n"
	}
	spinner := string([]rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")[i%10])
	if width := c.width(); width > 0 {
		// The last column stays free: some terminals go to the next row when it is written.
		text = cut(text, width-2)
		detail = cut(detail, width-2-utf8.RuneCountInString(text))
	}
	return c.clear() + color.CyanString(spinner) + text + color.HiBlackString("%s", detail)
}

// cut returns the first runes of a text, at most n.
func cut(text string, n int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), max(n, 0))])
}

func (c *Console) clear() string {
	if c.terminal {
		return "\r\033[K"
	}
	return ""
}

// Line prints one line.
func (c *Console) Line(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

// Heading prints a line that starts a paragraph.
func (c *Console) Heading(format string, args ...any) {
	fmt.Fprintln(c.out, "\n"+color.New(color.Bold).Sprintf(format, args...))
}

// Table prints rows under a header, columns aligned.
func (c *Console) Table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing a table: %w", err)
	}
	return nil
}
