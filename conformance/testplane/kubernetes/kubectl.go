package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

const kubectlName = "kubectl"

// calledAs returns the subcommand that the program's own name stands for: a link named
// kubectl is kubectl.
func calledAs(program string) string {
	if filepath.Base(program) == kubectlName {
		return kubectlName
	}
	return ""
}

// runKubectl is kubectl without plugins: what a test runs must not depend on what is
// installed. It ends the process with kubectl's exit codes.
func runKubectl(args []string) {
	if err := cli.RunNoErrOutput(kubectlCommand(args)); err != nil {
		util.CheckErr(err)
	}
}

func kubectlCommand(args []string) *cobra.Command {
	command := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		Arguments:   append([]string{kubectlName}, args...),
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50),
		IOStreams:   genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	})
	command.SetArgs(args)
	return command
}
