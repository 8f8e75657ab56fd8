package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the reference page")

// page renders all commands.
func page(root *cobra.Command) string {
	var text strings.Builder
	text.WriteString(`# longshorectl

This page is made of the commands' own help; ` + "`go test ./cmd/longshorectl -update`" + ` writes it.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the command could not do its work: an object does not exist, a cluster does not answer, a timeout |
| 2 | the command line is wrong |
| 3 | a policy module is refused, or gave no valid answer |
| 4 | a policy refused the object, or the provider the request |
| 5 | ` + "`longshorectl status`" + ` found a problem, or ` + "`longshorectl conform cluster`" + ` a check that failed |

Results go to the standard output, progress and warnings to the standard error. On a terminal both have color, unless NO_COLOR is set; in a pipe they are plain lines.

` + "`longshorectl completion bash`" + ` prints the completion for bash, and likewise for zsh, fish and powershell. It offers the names of commands, flags, contexts and
fixed values, and the names of objects, which it reads from the cluster of the command line for at most two seconds. For ` + "`kubectl longshore`" + `, put an executable
` + "`kubectl_complete-longshore`" + ` into PATH:

` + "```sh\n#!/bin/sh\nexec kubectl longshore __complete \"$@\"\n```" + `
`)
	document(&text, root)
	return text.String()
}

func document(text *strings.Builder, command *cobra.Command) {
	for _, child := range command.Commands() {
		if child.IsAvailableCommand() && child.Name() != "completion" {
			document(text, child)
		}
	}
	if !command.HasParent() || command.HasAvailableSubCommands() {
		return
	}
	fmt.Fprintf(text, "\n## %s\n\n", strings.TrimSuffix(command.UseLine(), " [flags]"))
	if len(command.Aliases) > 0 {
		fmt.Fprintf(text, "Other names: %s.\n\n", strings.Join(command.Aliases, ", "))
	}
	long := command.Long
	if long == "" {
		long = command.Short + "."
	}
	fmt.Fprintf(text, "```text\n%s\n```\n", strings.TrimSpace(long))
	if command.Example != "" {
		fmt.Fprintf(text, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(command.Example, "  "), "\n  ", "\n"))
	}
	var flags []string
	command.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}
		flags = append(flags, fmt.Sprintf("| %s | %s | %s |", name, value, strings.ReplaceAll(f.Usage, "|", "\\|")))
	})
	if len(flags) > 0 {
		fmt.Fprintf(text, "\n| flag | default | meaning |\n|---|---|---|\n%s\n", strings.Join(flags, "\n"))
	}
}

func TestTheReferencePageIsTrue(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "longshorectl.md")
	got := page(command(nil))
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "run go test ./cmd/longshorectl -run TestTheReferencePageIsTrue -update")
}
