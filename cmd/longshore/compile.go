package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/host/policy/compiler"
)

// compileName is the command with which a component runs its own binary to compile a policy.
const compileName = "compile-policy"

// policyCompiler compiles policies in children that run this binary.
func policyCompiler() func(ctx context.Context, wasm []byte, dir string) error {
	// The running binary, even if its file was replaced meanwhile: compiled code fits no other.
	return (&compiler.Process{Path: "/proc/self/exe", Args: []string{compileName}}).Compile
}

// compileCommand is for components, not for people.
func compileCommand() *cobra.Command {
	return &cobra.Command{
		Use: compileName + " SECONDS BYTES DIRECTORY", Short: "Compile a policy's module for another process", Hidden: true, Args: cobra.ArbitraryArgs,
		Run: func(cmd *cobra.Command, args []string) {
			os.Exit(compiler.Child(cmd.Context(), args, cmd.InOrStdin(), cmd.ErrOrStderr()))
		},
	}
}
