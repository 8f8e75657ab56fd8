package main

import (
	"context"
	"fmt"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	manageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// The components are run below their cobra commands: each command installs a signal
// handler, and the second installation in one process panics.

// prepareAPIServer checks args and returns what runs the API server. Its feature gates
// are those of the whole process.
func prepareAPIServer(ctx context.Context, args []string) (func(context.Context) error, error) {
	options := apiserveroptions.NewServerRunOptions()
	sets := options.Flags()
	if err := parseInto("kube-apiserver", sets.FlagSets, args); err != nil {
		return nil, err
	}
	if err := options.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("setting feature gates: %w", err)
	}
	if err := logsapi.ValidateAndApply(options.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return nil, fmt.Errorf("setting up logs: %w", err)
	}
	completed, err := options.Complete(ctx)
	if err != nil {
		return nil, fmt.Errorf("completing the API server's options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, fmt.Errorf("checking the API server's options: %w", utilerrors.NewAggregate(errs))
	}
	return func(ctx context.Context) error { return apiserver.Run(ctx, completed) }, nil
}

func prepareManager(ctx context.Context, args []string) (func(context.Context) error, error) {
	options, err := manageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("creating the controller manager's options: %w", err)
	}
	known, disabled, aliases := manager.KnownControllers(), manager.ControllersDisabledByDefault(), manager.ControllerAliases()
	sets := options.Flags(known, disabled, aliases)
	options.ParsedFlags = &sets
	if err := parseInto("kube-controller-manager", sets.FlagSets, args); err != nil {
		return nil, err
	}
	config, err := options.Config(ctx, known, disabled, aliases)
	if err != nil {
		return nil, fmt.Errorf("checking the controller manager's options: %w", err)
	}
	return func(ctx context.Context) error { return manager.Run(ctx, config.Complete()) }, nil
}

func prepareScheduler(ctx context.Context, args []string) (func(context.Context) error, error) {
	options := scheduleroptions.NewOptions()
	if err := parseInto("kube-scheduler", options.Flags.FlagSets, args); err != nil {
		return nil, err
	}
	config, instance, err := scheduler.Setup(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("setting up the scheduler: %w", err)
	}
	return func(ctx context.Context) error { return scheduler.Run(ctx, config, instance) }, nil
}

// waitReady polls /readyz. A failed API server ends the wait: when it cannot serve it
// may accept connections all the same and never answer.
func waitReady(ctx context.Context, o controlPlaneOptions, failed <-chan error) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.readKubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.Timeout = 2 * time.Second
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.readyTimeout)
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- pollReady(ctx, client) }()
	select {
	case err := <-failed:
		return fmt.Errorf("running kube-apiserver: %w", orUnknown(err))
	case err := <-ready:
		return err
	}
}

func pollReady(ctx context.Context, client kubernetes.Interface) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API server to be ready: %w (last answer: %w)", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
