package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/policy/compiler"
)

// compileName is the command with which a component runs its own binary to compile a policy.
const compileName = "compile-policy"

// precompiledDirDefault is where the image has what precompileCommand wrote.
const precompiledDirDefault = "/usr/share/longshore/policies"

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

// precompileCommand is for those who build the image.
func precompileCommand() *cobra.Command {
	return &cobra.Command{
		Use: "precompile-policies DIRECTORY", Short: "Compile the built-in policies into a directory of an image", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := policies.Precompile(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("compiling the built-in policies into %s: %w", args[0], err)
			}
			return nil
		},
	}
}
