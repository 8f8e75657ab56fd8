// Command cmd builds the test control plane, or prints its path.
//
//	go run ./conformance/testplane/cmd build   build it unless it is built; prints its path
//	go run ./conformance/testplane/cmd path    print where it is or would be
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/longshore-dev/longshore/conformance/testplane/binary"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "testplane: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, messages io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument: build or path")
	}
	var path string
	var err error
	switch args[0] {
	case "build":
		path, err = binary.Build(ctx, messages)
	case "path":
		path, err = binary.Path(ctx)
	default:
		return fmt.Errorf("unknown command %q: want build or path", args[0])
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, path); err != nil {
		return fmt.Errorf("printing the path: %w", err)
	}
	return nil
}
