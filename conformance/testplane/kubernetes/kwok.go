package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
)

// stages are what kwok plays: nodes become ready and renew their lease, pods run at
// once, pods of Jobs complete. podDeletion takes the place of its stage for deleted pods.
func stages() string {
	return strings.Join([]string{
		nodefast.DefaultNodeInit,
		nodeheartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
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
		if err := prepareNodes(ctx, args); err != nil {
			return errors.Join(err, os.Remove(file))
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

// prepareNodes takes over the nodes that args have kwok simulate.
func prepareNodes(ctx context.Context, args []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", flagValue(args, "kubeconfig"))
	if err != nil {
		return fmt.Errorf("reading kwok's kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	selector := flagValue(args, "manage-nodes-with-label-selector")
	if err := releaseNodes(ctx, client, selector); err != nil {
		return err
	}
	return startPodDeletion(ctx, client, selector)
}

// releaseNodes deletes the leases of the nodes. A cluster has one kwok at a time, under a
// new identity each time: the leases of one that was killed would hold the nodes for their
// duration, in which no pod runs and no node is ready.
func releaseNodes(ctx context.Context, client kubernetes.Interface, selector string) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("listing simulated nodes: %w", err)
	}
	for i := range nodes.Items {
		err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, nodes.Items[i].Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the lease of a simulated node: %w", err)
		}
	}
	return nil
}

// flagValue returns the value of the last --name=value, "" without one.
func flagValue(args []string, name string) string {
	value := ""
	for _, arg := range args {
		if v, found := strings.CutPrefix(arg, "--"+name+"="); found {
			value = v
		}
	}
	return value
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
