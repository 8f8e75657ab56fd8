// Command longshorectl is the user's command. Its exit codes are part of its interface:
//
//	0  done; the module loads, or its answer was applied
//	1  the command could not do its work: a file is missing, an input or a kubeconfig is
//	   not readable, an object does not exist, a cluster does not answer
//	2  the command line is wrong: a command, flag, point or context that there is not
//	3  the module is refused, or gave no valid answer: its author must act
//	4  the policy refused the object
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/cmd/longshorectl/explain"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/peer"
	"github.com/longshore-dev/longshore/cmd/longshorectl/policy"
	"github.com/longshore-dev/longshore/host/kit/version"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := command().ExecuteContext(ctx)
	stop()
	code, message := output.ExitCode(err)
	if message != "" {
		fmt.Fprintln(os.Stderr, "Error:", engine.PlainLines(message))
	}
	os.Exit(code)
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "longshorectl",
		Short:         "Work with Longshore: look into policies, try them, and see what they did",
		Version:       version.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	output.Group(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return output.Usage(err) })
	root.AddCommand(peer.Commands(peer.Streams{Out: os.Stdout, Err: os.Stderr})...)
	root.AddCommand(explain.Command(os.Stdout, os.Getenv), policy.Command(policy.Streams{In: os.Stdin, Out: os.Stdout, Getenv: os.Getenv}))
	return root
}
