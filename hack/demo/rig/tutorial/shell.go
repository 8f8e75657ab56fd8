package tutorial

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Shell is one bash for a whole document: variables, functions and the folder stay from
// block to block.
type Shell struct {
	command *exec.Cmd
	input   io.WriteCloser
	answers *bufio.Scanner
	output  string
}

// Start starts a shell in a folder, with variables beside those of this process. Scratch
// is a folder for its output. The shell ends with the context.
func Start(ctx context.Context, dir, scratch string, variables ...string) (*Shell, error) {
	command := exec.CommandContext(ctx, "bash", "--norc")
	command.Dir, command.Env = dir, append(withoutMake(os.Environ()), variables...)
	input, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting a shell: %w", err)
	}
	answers, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting a shell: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting a shell: %w", err)
	}
	s := &Shell{command: command, input: input, answers: bufio.NewScanner(answers), output: filepath.Join(scratch, "output")}
	// A command that fails counts, wherever it stands, functions included.
	_, err = io.WriteString(input, "set -o pipefail -o errtrace\ntrap 'failed=1' ERR\n")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a shell: %w", err), s.Close())
	}
	return s, nil
}

// withoutMake removes the variables by which a make that a document runs would see that it runs
// below `make test`: it prints its folder then, which no user sees.
func withoutMake(variables []string) []string {
	return slices.DeleteFunc(variables, func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == "MAKELEVEL" || name == "MAKEFLAGS" || name == "MFLAGS"
	})
}

// Run runs commands, and returns what they wrote and whether all of them succeeded. Commands that
// ask for a confirmation are answered with yes.
func (s *Shell) Run(commands string) (output string, ok bool, err error) {
	script := fmt.Sprintf("failed=0\n{\n%s\n} > '%s' 2>&1 < <(yes yes)\necho \"longshore:$failed\"\n", commands, s.output)
	if _, err := io.WriteString(s.input, script); err != nil {
		return "", false, fmt.Errorf("telling the shell: %w", err)
	}
	if !s.answers.Scan() {
		return "", false, errors.Join(errors.New("the shell ended"), s.answers.Err())
	}
	failed, err := strconv.Atoi(strings.TrimPrefix(s.answers.Text(), "longshore:"))
	if err != nil {
		return "", false, fmt.Errorf("reading the shell's answer %q: %w", s.answers.Text(), err)
	}
	content, err := os.ReadFile(s.output)
	if err != nil {
		return "", false, fmt.Errorf("reading the output: %w", err)
	}
	return string(content), failed == 0, nil
}

// Close ends the shell.
func (s *Shell) Close() error {
	if err := errors.Join(s.input.Close(), s.command.Wait()); err != nil {
		return fmt.Errorf("ending the shell: %w", err)
	}
	return nil
}
