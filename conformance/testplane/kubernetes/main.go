// Command testplane is a Kubernetes control plane for tests, as one multi-call binary:
//
//	testplane cp          etcd, API server, controller manager and scheduler in one process
//	testplane kwok        simulated nodes, with kwok's fast stages built in
//	testplane kubelet     the kubelet
//	testplane kube-proxy  kube-proxy
//	testplane kubectl     kubectl; a link to the binary that is named kubectl is it too
//
// It is a process of its own because Kubernetes allows one API server and one
// controller manager per process (their informer names are global), and a module of its
// own because k8s.io/kubernetes needs some thirty replace lines that no other module
// should need. conformance/testplane starts it and owns the flags; nothing here knows Longshore.
//
// With --exit-with-stdin before the subcommand the process ends when its standard input
// is closed, so it never outlives the process that holds the other end of that pipe.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

const usage = "usage: testplane [--exit-with-stdin] cp|kwok|kubelet|kube-proxy|kubectl [flags]"

var errUsage = errors.New(usage)

func main() {
	args := os.Args[1:]
	if name := calledAs(os.Args[0]); name != "" {
		args = append([]string{name}, args...)
	}
	err := run(args)
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "testplane: %v\n", err)
	if errors.Is(err, errUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "--exit-with-stdin" {
		go exitWithStdin(os.Stdin)
		args = args[1:]
	}
	if len(args) == 0 {
		return errUsage
	}
	name, rest := args[0], args[1:]
	switch name {
	case "cp":
		return runControlPlane(rest)
	case "kwok":
		return runKwok(rest)
	case "kubelet":
		return runCommand(kubelet.NewKubeletCommand(context.Background()), rest)
	case "kube-proxy":
		return runCommand(proxy.NewProxyCommand(), rest)
	case kubectlName:
		runKubectl(rest)
		return nil
	default:
		return fmt.Errorf("unknown subcommand %q: %w", name, errUsage)
	}
}

// runCommand executes one of Kubernetes' own commands, which handle signals themselves.
func runCommand(command *cobra.Command, args []string) error {
	command.SetArgs(args)
	if err := cli.RunNoErrOutput(command); err != nil {
		return fmt.Errorf("running %s: %w", command.Name(), err)
	}
	return nil
}
