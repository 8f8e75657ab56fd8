// Command longshorectl is the user's command. Its exit codes are part of its interface:
//
//	0  done; the module loads, or its answer was applied
//	1  the command could not do its work: a file is missing, an input or a kubeconfig is
//	   not readable, an object does not exist, a cluster does not answer
//	2  the command line is wrong: a command, flag, point or context that there is not
//	3  the module is refused, or gave no valid answer: its author must act
//	4  the policy refused the object, the provider the request, or a pod of a plan would not run
//	5  longshorectl status found a problem, or longshorectl conform cluster a check that failed
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/longshore-dev/longshore/cmd/longshorectl/admin"
	"github.com/longshore-dev/longshore/cmd/longshorectl/complete"
	"github.com/longshore-dev/longshore/cmd/longshorectl/conform"
	"github.com/longshore-dev/longshore/cmd/longshorectl/explain"
	"github.com/longshore-dev/longshore/cmd/longshorectl/handshake"
	"github.com/longshore-dev/longshore/cmd/longshorectl/move"
	"github.com/longshore-dev/longshore/cmd/longshorectl/offload"
	"github.com/longshore-dev/longshore/cmd/longshorectl/output"
	"github.com/longshore-dev/longshore/cmd/longshorectl/peer"
	"github.com/longshore-dev/longshore/cmd/longshorectl/peeringuser"
	"github.com/longshore-dev/longshore/cmd/longshorectl/plan"
	"github.com/longshore-dev/longshore/cmd/longshorectl/policy"
	"github.com/longshore-dev/longshore/cmd/longshorectl/resourceslice"
	"github.com/longshore-dev/longshore/cmd/longshorectl/status"
	"github.com/longshore-dev/longshore/cmd/longshorectl/tenancy"
	"github.com/longshore-dev/longshore/cmd/longshorectl/virtualnode"
	"github.com/longshore-dev/longshore/host/kit/plaintext"
	"github.com/longshore-dev/longshore/host/kit/version"
	"github.com/longshore-dev/longshore/host/policy/compiler"
	"github.com/longshore-dev/longshore/host/policy/engine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	if len(os.Args) > 1 && os.Args[1] == compiler.Argument {
		os.Exit(compiler.Child(ctx, os.Args[2:], os.Stdin, os.Stderr))
	}
	ctrllog.SetLogger(logr.Discard()) // Errors are returned, and controller-runtime complains, with a stack, if it has no logger.
	root := command(compiler.Own())
	nameAsCalled(root, os.Args[0])
	err := root.ExecuteContext(ctx)
	stop()
	code, message := output.ExitCode(err)
	if message != "" {
		fmt.Fprintln(os.Stderr, "Error:", plaintext.Lines(message))
	}
	os.Exit(code)
}

// nameAsCalled makes usage texts say "kubectl longshore" when kubectl called the command, as its
// plugin kubectl-longshore.
func nameAsCalled(root *cobra.Command, executable string) {
	if plugin, ok := strings.CutPrefix(filepath.Base(executable), "kubectl-"); ok {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + plugin}
	}
}

// command returns longshorectl; see policy.Streams about the compiler.
func command(compile engine.Compiler) *cobra.Command {
	root := &cobra.Command{
		Use:           "longshorectl",
		Short:         "Work with Longshore: peer clusters, share resources, look into policies",
		Version:       version.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	output.Group(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return output.Usage(err) })
	streams := admin.Streams{Out: os.Stdout, Err: os.Stderr, In: os.Stdin}
	root.AddCommand(peer.Commands(streams)...)
	root.AddCommand(
		status.Status(streams), status.Info(streams),
		group("create", "Create what the local cluster uses of others", resourceslice.Create(streams), virtualnode.Create(streams),
			handshake.CreateNonce(streams)),
		group("get", "List what the local cluster uses of others, and grants to others", resourceslice.Get(streams), virtualnode.Get(streams),
			handshake.GetNonce(streams), handshake.GetKubeconfig(streams)),
		group("delete", "Return what the local cluster uses of others", resourceslice.Delete(streams), virtualnode.Delete(streams),
			peeringuser.Delete(streams)),
		group("generate", "Print objects that an administrator carries to the other cluster", handshake.GenerateTenant(streams), handshake.GenerateIdentity(streams),
			peeringuser.Generate(streams)),
		group("cordon", "Stop new work of a consumer; run it in the provider", tenancy.Cordon(streams)...),
		group("uncordon", "Undo cordon; run it in the provider", tenancy.Uncordon(streams)...),
		group("drain", "Take away what a consumer has; run it in the provider", tenancy.Drain(streams)...),
		group("activate", "Undo cordon and drain of a consumer; run it in the provider", tenancy.Activate(streams)...),
		group("force", "Act without the other cluster", peer.ForceUnpeer(streams)),
		group("conform", "Test what is installed, from outside", conform.Cluster(streams)),
		group("offload", "Extend namespaces to other clusters", offload.Offload(streams)),
		group("unoffload", "Withdraw namespaces from other clusters", offload.Unoffload(streams)),
		group("move", "Copy data between clusters", move.Volume(streams)),
	)
	root.AddCommand(versionCommand(streams.Out))
	root.AddCommand(plan.Command(os.Stdin, os.Stdout, os.Getenv, compile))
	root.AddCommand(explain.Command(os.Stdout, os.Getenv), policy.Command(policy.Streams{In: os.Stdin, Out: os.Stdout, Getenv: os.Getenv, Compiler: compile}))
	root.InitDefaultCompletionCmd()
	for _, child := range root.Commands() {
		if child.Name() == "completion" {
			output.Group(child)
		}
	}
	refused(root)
	refusedFlags(root)
	output.UsageArgs(root)
	complete.AddTo(root)
	return root
}

// versionCommand prints what --version prints, as that of the reference does.
func versionCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this command", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(out, version.Version())
			return err //nolint:wrapcheck // A closed pipe.
		},
	}
}

// group returns a command that has only subcommands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{Use: use, Short: short}
	output.Group(command)
	command.AddCommand(commands...)
	return command
}
