package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/longshore-dev/longshore/host/app/policies"
	"github.com/longshore-dev/longshore/host/policy/compiler"
)

// precompiledDirDefault is where the image has what precompileCommand wrote.
const precompiledDirDefault = "/usr/share/longshore/policies"

// compileCommand is for components, not for people.
func compileCommand() *cobra.Command {
	return &cobra.Command{
		Use: compiler.Argument + " SECONDS BYTES DIRECTORY", Short: "Compile a policy's module for another process", Hidden: true, Args: cobra.ArbitraryArgs,
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
