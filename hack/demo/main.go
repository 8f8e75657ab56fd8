// Command demo runs two Kubernetes clusters on loopback, installs Longshore on both and
// shows a pod of one run in the other: `make demo`, `make demo-down`.
//
// One supervisor process owns everything that is started; the command itself only asks
// it for clusters and then works on them as an administrator would.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/longshore-dev/longshore/cmd/longshorectl/console"
	"github.com/longshore-dev/longshore/hack/demo/session"
)

// errShown is an error whose text the person has seen already.
var errShown = errors.New("failed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errShown) {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var dir, longshore string
	root := &cobra.Command{
		Use: "demo", Short: "Two clusters on loopback, and a pod of one that runs in the other",
		SilenceUsage: true, SilenceErrors: true,
	}
	// Logs of the libraries belong in the supervisor's log, not between the steps.
	klog.SetLogger(logr.Discard())
	quiet := func(*cobra.Command, []string) { ctrl.SetLogger(logr.Discard()) }
	root.PersistentFlags().StringVar(&dir, "dir", ".demo", "folder of the demo's files")
	root.PersistentFlags().StringVar(&longshore, "longshore", "bin/longshore", "the server binary")
	open := func() (*session.Session, error) { return session.Open(dir) }
	root.AddCommand(
		&cobra.Command{
			Use: "up", Short: "Start what is not running, and show the demo", Args: cobra.NoArgs, PreRun: quiet,
			RunE: func(cmd *cobra.Command, _ []string) error {
				s, err := open()
				if err != nil {
					return err
				}
				return (&upCommand{session: s, longshore: longshore, out: console.New(os.Stdout)}).run(cmd.Context())
			},
		},
		&cobra.Command{
			Use: "down", Short: "Stop what the demo started, and nothing else", Args: cobra.NoArgs, PreRun: quiet,
			RunE: func(cmd *cobra.Command, _ []string) error {
				s, err := open()
				if err != nil {
					return err
				}
				return down(cmd.Context(), s, console.New(os.Stdout))
			},
		},
		&cobra.Command{
			Use: "supervise", Hidden: true, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				ctrl.SetLogger(zap.New())
				klog.SetLogger(ctrl.Log)
				s, err := open()
				if err != nil {
					return err
				}
				return supervise(cmd.Context(), s, longshore)
			},
		},
	)
	return root
}

func down(ctx context.Context, s *session.Session, out *console.Console) error {
	lock, err := s.LockUp()
	if errors.Is(err, session.ErrBusy) {
		return errors.New("a `make demo` is working in this clone: end it first (Ctrl-C in its terminal)")
	}
	if err != nil {
		return err
	}
	var stopped bool
	err = out.Step("Stopping the demo", func(func(string)) (err error) {
		stopped, err = s.Stop(ctx)
		return err
	})
	if err == nil && !stopped {
		out.Line("Nothing was running.")
	}
	return errors.Join(err, lock.Release())
}
