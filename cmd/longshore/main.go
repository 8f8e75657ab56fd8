// Command longshore is the one server binary: each subcommand is one process of an
// installation. Started under the name virtual-kubelet it is a virtual kubelet, since
// VirtualNode templates on the wire carry that command.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	// The image has no certificate authorities of its own; API servers of providers may have
	// certificates that every system trusts.
	_ "golang.org/x/crypto/x509roots/fallback"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/longshore-dev/longshore/host/kit/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := command(os.Args).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func command(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:           "longshore",
		Short:         "Run pods on other clusters, decided by sandboxed policies",
		Version:       version.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	development := root.PersistentFlags().Bool("log-text", false, "log text for people instead of JSON")
	verbosity := root.PersistentFlags().Int("v", 0, "log verbosity: 0 logs changes, 1 also their reasons")
	root.PersistentPreRun = func(*cobra.Command, []string) {
		logger := newLogger(os.Stderr, *development, *verbosity)
		ctrl.SetLogger(logger)
		klog.SetLogger(logger)
	}
	root.AddCommand(managerCommand(), webhookCommand(), replicatorCommand(), kubeletCommand(), compileCommand(), precompileCommand(), uninstallCommand(), checkCommand(),
		copyVolumeCommand())
	root.SetArgs(args[1:])
	if filepath.Base(args[0]) == "virtual-kubelet" {
		root.SetArgs(append([]string{"kubelet"}, args[1:]...))
	}
	return root
}
