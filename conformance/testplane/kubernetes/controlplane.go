package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// controlPlaneOptions are the flags of cp. The components' own flags come in as they
// are: who starts a cluster decides them all, and a new one needs no new binary.
type controlPlaneOptions struct {
	dir            string
	readyTimeout   time.Duration
	apiServerArgs  []string
	managerArgs    []string
	schedulerArgs  []string
	readKubeconfig string
	temporary      bool
}

func parseControlPlaneOptions(args []string) (controlPlaneOptions, error) {
	var o controlPlaneOptions
	flags := pflag.NewFlagSet("cp", pflag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "", "state directory: etcd's data and sockets; also the working directory")
	flags.StringVar(&o.readKubeconfig, "kubeconfig", "", "kubeconfig that may read /readyz")
	flags.DurationVar(&o.readyTimeout, "ready-timeout", 2*time.Minute, "how long the API server may take to be ready")
	flags.StringArrayVar(&o.apiServerArgs, "apiserver-arg", nil, "flag for kube-apiserver, repeatable (--etcd-servers is set here)")
	flags.StringArrayVar(&o.managerArgs, "manager-arg", nil, "flag for kube-controller-manager, repeatable")
	flags.StringArrayVar(&o.schedulerArgs, "scheduler-arg", nil, "flag for kube-scheduler, repeatable")
	flags.BoolVar(&o.temporary, "temporary", false, "remove the state directory at the end")
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("parsing the flags of cp: %w", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("cp takes flags only, not %q: %w", flags.Args(), errUsage)
	}
	if o.dir == "" || o.readKubeconfig == "" {
		return o, fmt.Errorf("cp needs --dir and --kubeconfig: %w", errUsage)
	}
	return o, nil
}

// exit is how one component of the control plane ended.
type exit struct {
	component string
	err       error
}

func runControlPlane(args []string) error {
	o, err := parseControlPlaneOptions(args)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	// Three components share one process and one logging configuration.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return fmt.Errorf("creating the state directory: %w", err)
	}
	if err := os.Chdir(o.dir); err != nil {
		return fmt.Errorf("entering the state directory: %w", err)
	}

	if o.temporary {
		defer os.RemoveAll(o.dir)
	}

	ctx, stop := signalContext(context.Background())
	defer stop()
	began := time.Now()
	etcd, err := startEtcd(ctx, ".")
	if err != nil {
		return err
	}
	progress(began, "etcd serves in %s", filepath.Join(o.dir, "etcd"))

	exits := make(chan exit, 3)
	pending, err := startComponents(ctx, o, began, exits)
	if err == nil {
		err = watch(ctx, etcd, exits)
	}
	if err != nil && ctx.Err() == nil {
		// Whatever failed, the process ends with its message now. etcd's data needs no
		// orderly end: what it has written the kernel keeps.
		return err
	}
	return shutdown(etcd, exits, pending)
}

// startComponents starts the API server, waits until it is ready, and starts the rest.
// It returns how many components will send their exit.
func startComponents(ctx context.Context, o controlPlaneOptions, began time.Time, exits chan<- exit) (int, error) {
	server, err := prepareAPIServer(ctx, append([]string{"--etcd-servers=" + etcdClientURL}, o.apiServerArgs...))
	if err != nil {
		return 0, err
	}
	failed := make(chan error, 1)
	run := func(component string, run func(context.Context) error) {
		go func() {
			err := run(ctx)
			select {
			case failed <- err:
			default:
			}
			exits <- exit{component, err}
		}()
	}
	run("kube-apiserver", server)
	if err := waitReady(ctx, o, failed); err != nil {
		return 1, err
	}
	progress(began, "the API server is ready")

	manager, err := prepareManager(ctx, o.managerArgs)
	if err != nil {
		return 1, err
	}
	run("kube-controller-manager", manager)
	scheduler, err := prepareScheduler(ctx, o.schedulerArgs)
	if err != nil {
		return 2, err
	}
	run("kube-scheduler", scheduler)
	progress(began, "the controller manager and the scheduler are started")
	return 3, nil
}

// watch returns when the process is asked to end, or with an error when a component
// ended unasked.
func watch(ctx context.Context, etcd *embed.Etcd, exits chan exit) error {
	select {
	case <-ctx.Done():
		return nil
	case ended := <-exits:
		exits <- ended // in case both happened: shutdown counts it
		return fmt.Errorf("%s ended unexpectedly: %w", ended.component, orUnknown(ended.err))
	case err := <-etcd.Err():
		return fmt.Errorf("etcd ended unexpectedly: %w", orUnknown(err))
	}
}

// shutdown waits for the pending components, then closes etcd, within shutdownBound.
func shutdown(etcd *embed.Etcd, exits <-chan exit, pending int) error {
	bound := time.After(shutdownBound)
	for ; pending > 0; pending-- {
		select {
		case <-exits:
		case <-bound:
			return fmt.Errorf("stopping: %d components still run after %s", pending, shutdownBound)
		}
	}
	closed := make(chan struct{})
	go func() {
		etcd.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-bound:
		return fmt.Errorf("stopping: etcd still runs after %s", shutdownBound)
	}
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

func progress(began time.Time, format string, args ...any) {
	fmt.Fprintf(os.Stderr, "testplane: %5.2fs %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

// parseInto parses one component's flags.
func parseInto(component string, sets map[string]*pflag.FlagSet, args []string) error {
	flags := pflag.NewFlagSet(component, pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, set := range sets {
		flags.AddFlagSet(set)
	}
	flags.Usage = func() {}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parsing the flags of %s: %w", component, err)
	}
	return nil
}
