package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// shutdownBound is how long an orderly end may take before the process ends anyway.
const shutdownBound = 10 * time.Second

// exitWithStdin ends the process when in ends: with SIGTERM first, so that whatever
// runs can end in order, and without asking after shutdownBound.
//
// Pdeathsig would do the same only as long as the parent's thread that forked lives,
// and Go ends threads when it likes.
func exitWithStdin(in io.Reader) {
	// The content does not matter, and an error is an end as well.
	_, _ = io.Copy(io.Discard, in)
	fmt.Fprintln(os.Stderr, "testplane: standard input ended, stopping")
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		fmt.Fprintf(os.Stderr, "testplane: signalling itself: %v\n", err)
		os.Exit(1)
	}
	time.Sleep(shutdownBound)
	fmt.Fprintln(os.Stderr, "testplane: not stopped in time, exiting")
	os.Exit(1)
}

// signalContext ends on SIGTERM or SIGINT; a second signal ends the process at once.
func signalContext(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		received := <-signals
		fmt.Fprintf(os.Stderr, "testplane: %v received, stopping\n", received)
		cancel()
		<-signals
		os.Exit(1)
	}()
	return ctx, cancel
}
