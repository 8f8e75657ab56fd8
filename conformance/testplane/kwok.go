package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
)

// stages are what kwok plays: nodes become ready and renew their lease, pods run at
// once, pods of Jobs complete, deleted pods go.
func stages() string {
	return strings.Join([]string{
		nodefast.DefaultNodeInit,
		nodeheartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
	}, "\n---\n")
}

// runKwok runs kwok with args. A --config in args replaces the built-in stages.
func runKwok(args []string) error {
	ctx, stop := signalContext(context.Background())
	defer stop()
	file := ""
	if !hasConfig(args) {
		var err error
		if file, err = writeStages(); err != nil {
			return err
		}
		args = append([]string{"--config=" + file}, args...)
	}
	// kwok reads its configuration from the command line of the process, here and once.
	os.Args = append([]string{"kwok"}, args...)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ = kwoklog.InitFlags(ctx, flags)
	ctx, err := config.InitFlags(ctx, flags)
	if file != "" {
		err = errors.Join(err, os.Remove(file))
	}
	if err != nil {
		return fmt.Errorf("reading kwok's configuration: %w", err)
	}
	// cobra adds the process' global flags, among them Kubernetes' --version, which is
	// not the boolean that cobra expects.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	command.SetArgs(args)
	if err := command.ExecuteContext(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("running kwok: %w", err)
	}
	return nil
}

func hasConfig(args []string) bool {
	for _, arg := range args {
		if arg == "-c" || arg == "--config" || strings.HasPrefix(arg, "--config=") {
			return true
		}
	}
	return false
}

func writeStages() (string, error) {
	file, err := os.CreateTemp("", "testplane-stages-*.yaml")
	if err != nil {
		return "", fmt.Errorf("creating the file of stages: %w", err)
	}
	if _, err := file.WriteString(stages()); err != nil {
		file.Close()
		os.Remove(file.Name())
		return "", fmt.Errorf("writing the stages: %w", err)
	}
	if err := file.Close(); err != nil {
		os.Remove(file.Name())
		return "", fmt.Errorf("writing the stages: %w", err)
	}
	return file.Name(), nil
}
