// Package console prints what a person watches: steps with progress and durations, and
// tables. On a terminal it uses color and redraws the running step; in a pipe it prints
// plain lines.
package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/fatih/color"
	"github.com/mattn/go-isatty"
)

const redrawEvery = 200 * time.Millisecond

// Console prints to one writer.
type Console struct {
	out      io.Writer
	terminal bool
	now      func() time.Time

	mu     sync.Mutex
	detail string
}

// New prints to a file; color and redrawing depend on whether it is a terminal.
func New(out *os.File) *Console {
	terminal := isatty.IsTerminal(out.Fd()) && os.Getenv("NO_COLOR") == ""
	color.NoColor = !terminal
	return &Console{out: out, terminal: terminal, now: time.Now}
}

// NewPlain prints plain lines to any writer.
func NewPlain(out io.Writer) *Console { return &Console{out: out, now: time.Now} }

// Step runs one step, showing that it runs, how long it takes and how it ends.
func (c *Console) Step(title string, run func(progress func(string)) error) error {
	start := c.now()
	stop := make(chan struct{})
	var drawing sync.WaitGroup
	c.setDetail("")
	if c.terminal {
		drawing.Go(func() { c.redraw(title, start, stop) })
	}
	err := run(c.setDetail)
	close(stop)
	drawing.Wait()
	mark, took := color.GreenString("✓"), c.now().Sub(start)
	if err != nil {
		mark = color.RedString("✗")
	}
	if !c.terminal {
		mark = map[bool]string{true: "ok  ", false: "FAIL"}[err == nil]
	}
	fmt.Fprintf(c.out, "%s%s %-58s %6.1fs\n", c.clear(), mark, title, took.Seconds())
	return err
}

func (c *Console) setDetail(detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detail = detail
}

func (c *Console) redraw(title string, start time.Time, stop <-chan struct{}) {
	ticker := time.NewTicker(redrawEvery)
	defer ticker.Stop()
	for i := 0; ; i++ {
		c.mu.Lock()
		detail := c.detail
		c.mu.Unlock()
		spinner := string([]rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")[i%10])
		fmt.Fprintf(c.out, "%s%s %-58s %6.1fs %s", c.clear(), color.CyanString(spinner), title, c.now().Sub(start).Seconds(), color.HiBlackString(detail))
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
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
